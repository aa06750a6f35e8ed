#include "tests/simulation/scenario.h"

#include <array>
#include <functional>
#include <utility>

namespace swarm::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Of one delivery of a data frame and the like.
constexpr double kRare = 0.01;

constexpr std::array<std::string_view, kFaultKinds> kFaultNames{
    "kill",        "crash",    "lose-stage",   "pause",        "break",         "cut-off",
    "false-alarm", "join",     "drain",        "kill-trainer", "crash-trainer", "replace-trainer",
    "hang",        "stop",     "cut-pair",     "isolate",      "slow-disk",     "hang-disk",
    "flip-digest", "flip-sum", "flip-weights", "away",         "flip-gradient", "cut-region",
    "lose-region"};

struct Mutation {
  std::string name;
  std::function<void(Mutations*)> apply;
};

const std::vector<Mutation>& AllMutations() {
  static const std::vector<Mutation> all{
      {"claims", [](auto* m) { m->replica.compare_claims = false; }},
      {"unlisted", [](auto* m) { m->replica.refuse_unlisted_attempts = false; }},
      {"promise", [](auto* m) { m->replica.keep_term_promise = false; }},
      {"any-k", [](auto* m) { m->replica.compare_k = false; }},
      {"propagate-folds", [](auto* m) { m->replica.propagate_does_not_fold = false; }},
      {"generation", [](auto* m) { m->replica.compare_generation = false; }},
      {"early-parcel", [](auto* m) { m->replica.adopt_only_by_roster = false; }},
      {"revoke-keeps-open", [](auto* m) { m->replica.answer_revoke_by_closing = false; }},
      {"reissue", [](auto* m) { m->coordinator.revoke_before_reissue = false; }},
      {"trusting", [](auto* m) { m->coordinator.commit_awaits_states = false; }},
      {"first-reduced", [](auto* m) { m->coordinator.commit_needs_all = false; }},
      {"takeover-roster", [](auto* m) { m->coordinator.takeover_keeps_roster = false; }},
      {"takeover-record", [](auto* m) { m->coordinator.takeover_keeps_record = false; }},
      {"blind", [](auto* m) { m->coordinator.heed_broken_pairs = false; }},
      {"any-offer", [](auto* m) { m->coordinator.compare_offers = false; }},
      {"hasty", [](auto* m) { m->coordinator.commit_awaits_audits = false; }},
      {"one-region", [](auto* m) { m->coordinator.heed_regions = false; }},
      {"any-part", [](auto* m) { m->coordinator.compare_parts = false; }},
      {"overwrite-early", [](auto* m) { m->overwrite_early = true; }},
      {"mixed-join", [](auto* m) { m->mixed_join = true; }},
      {"admission-bytes", [](auto* m) { m->admission_waits_bytes = true; }},
      {"half-region", [](auto* m) { m->half_region = true; }},
      {"keep-cleared", [](auto* m) { m->keep_cleared = true; }},
  };
  return all;
}

Job DrawJob(Rng& rng, const Wishes& wishes) {
  Job job;
  const std::uint64_t stages = wishes.stages.value_or(1 + rng.Below(4));
  job.replicas.assign(stages, 1);
  for (std::uint64_t& r : job.replicas) r = 1 + rng.Below(3);
  if (rng.Below(16) == 0) job.replicas[rng.Below(stages)] = 4 + rng.Below(13);
  if (wishes.regions) job.replicas[rng.Below(stages)] = 3 + rng.Below(6);
  if (wishes.grids) job.replicas[rng.Below(stages)] = 4 + rng.Below(6);
  if (wishes.divided) job.replicas[rng.Below(stages)] = 2 + rng.Below(5);
  job.microbatches = 1 + rng.Below(6);
  job.steps = 4 + rng.Below(6);
  job.delayed = rng.Below(2) == 0;
  job.tied_head = rng.Below(3) == 0;
  job.order_sensitive = rng.Below(4) == 0;
  if (wishes.delayed) job.delayed = *wishes.delayed;
  if (wishes.order_sensitive) job.order_sensitive = *wishes.order_sensitive;
  job.checkpoints = rng.Below(3) > 0;
  job.checkpoint_interval = job.checkpoints ? rng.Below(4) : 0;
  if (rng.Below(3) == 0) {
    job.validation_interval = 1 + rng.Below(3);
    job.validation_microbatches = 1 + rng.Below(3);
  }
  job.max_grad_norm = rng.Below(2) == 0 ? 0.5 : 0;
  job.divided = wishes.divided;
  if (wishes.audits) {
    job.order_sensitive = false;
    job.replicas[rng.Below(stages)] = 3 + rng.Below(3);
  }
  if (wishes.local) {
    job.local = job.order_sensitive = true;
    job.tied_head = job.tied_head && stages == 1;
    job.fragments = 1 + rng.Below(3);
  }
  return job;
}

protocol::Patience ShortPatience() {
  protocol::Patience patience;
  patience.first_microbatch = seconds(4);
  patience.first_reduce = seconds(6);
  patience.hand_over = seconds(1);
  patience.pin = seconds(4);
  patience.join = seconds(15);
  patience.load = seconds(15);
  patience.away = seconds(5);
  patience.checkpoint = seconds(300);
  return patience;
}

}  // namespace

bool Mutations::any() const {
  const auto& r = replica;
  const auto& c = coordinator;
  const bool all = r.compare_claims && r.refuse_unlisted_attempts && r.keep_term_promise &&
                   r.compare_k && r.propagate_does_not_fold && r.compare_generation &&
                   r.adopt_only_by_roster && r.answer_revoke_by_closing &&
                   c.revoke_before_reissue && c.commit_needs_all && c.takeover_keeps_roster &&
                   c.takeover_keeps_record && c.heed_broken_pairs && c.compare_offers &&
                   c.compare_parts && c.commit_awaits_audits && c.heed_regions;
  return !all || overwrite_early || mixed_join || admission_waits_bytes || half_region ||
         keep_cleared;
}

std::vector<std::string> MutationNames() {
  std::vector<std::string> names;
  for (const Mutation& mutation : AllMutations()) names.push_back(mutation.name);
  return names;
}

bool Mutate(const std::string& name, Mutations* mutations) {
  for (const Mutation& mutation : AllMutations()) {
    if (mutation.name != name) continue;
    mutation.apply(mutations);
    return true;
  }
  return false;
}

std::string_view NameOf(FaultKind kind) { return kFaultNames[static_cast<std::size_t>(kind)]; }

Scenario DrawScenario(std::uint64_t seed, const Wishes& wishes) {
  Rng rng(MixName(seed, "scenario"));
  Scenario scenario{.seed = seed, .job = DrawJob(rng, wishes), .patience = ShortPatience()};
  if (rng.Below(3) == 0) scenario.network.spike_probability = kRare;
  scenario.faults = wishes.faults.value_or(rng.Below(7));
  constexpr std::array<int, 3> kGaps{5, 25, 120};
  scenario.fault_gap = milliseconds(kGaps[rng.Below(kGaps.size())]);
  // Some seeds have one kind of fault, others two, others all.
  const std::uint64_t kinds = 1 + rng.Below(3);
  for (std::uint64_t i = 0; i < kMixedFaultKinds; ++i) {
    // Stops are rare, because a stopped job ends early.
    if (kinds == 3 && static_cast<FaultKind>(i) != FaultKind::kStop) {
      scenario.kinds.push_back(static_cast<FaultKind>(i));
    }
  }
  while (scenario.kinds.size() < kinds) {
    scenario.kinds.push_back(static_cast<FaultKind>(rng.Below(kMixedFaultKinds)));
  }
  if (MixAll(seed, 0x61776179) % 4 == 0) scenario.kinds.push_back(FaultKind::kAway);
  if (wishes.regions || wishes.survive || wishes.only == FaultKind::kCutRegion ||
      wishes.only == FaultKind::kLoseRegion) {
    scenario.regions = 2 + MixAll(seed, 0x726567) % 2;
    scenario.kinds.push_back(FaultKind::kCutRegion);
    scenario.kinds.push_back(FaultKind::kLoseRegion);
  }
  if (wishes.only) scenario.kinds = {*wishes.only};
  if (rng.Below(3) == 0) scenario.resend_probability = 5 * kRare;
  if (rng.Below(3) == 0) scenario.network.repeat_probability = 0.5;
  if (rng.Below(3) == 0) scenario.corrupt_probability = 10 * kRare;
  if (rng.Below(4) == 0) scenario.checkpoint_error_probability = 0.1;
  if (rng.Below(4) == 0) scenario.slow_probability = 0.2;
  if (rng.Below(4) == 0) scenario.retained_bytes_max = 8 * rng.Below(6);
  if (rng.Below(6) == 0) scenario.join_lag_max = 2;
  if (MixAll(seed, 0x7061726b) % 8 == 0) scenario.parked_bytes_max = 2 * kPayloadBytes;
  if (wishes.grids || MixAll(seed, 0x67726964) % 2 == 0) scenario.flat_reduce_max = 3;
  if (MixAll(seed, 0x706f6473) % 4 == 0) scenario.pods = 2 + MixAll(seed, 0x706f6474) % 4;
  if (MixAll(seed, 0x6b657074) % 4 == 0) scenario.kept_steps_max = protocol::kKeptStepsMin;
  // A draw of its own, so that the other draws stay the same.
  switch (MixAll(seed, 0x6d6f7665) % 4) {
    case 0:
      scenario.balance = protocol::BalancePolicy::kEvent;
      break;
    case 1:
      scenario.balance = protocol::BalancePolicy::kPeriodic;
      break;
    default:
      break;
  }
  if (!scenario.job.order_sensitive) {
    scenario.job.overflows = MixAll(seed, 0x6c6576656c) % 4 == 0;
    scenario.job.skips = MixAll(seed, 0x736b6970) % 4 == 0;
  }
  scenario.spares = rng.Below(4) == 0 ? 1 + rng.Below(2) : 0;
  scenario.outbox_survives_trainer = rng.Below(2) == 0;
  scenario.keeps_states = MixAll(seed, 0x6b656570) % 4 != 0;
  scenario.unlike_links = wishes.unlike_links;
  if (wishes.only == FaultKind::kFlipGradient) {
    // A replica that leaves for another stage is not asked, and two cannot tell who is right.
    scenario.balance = protocol::BalancePolicy::kNone;
  }
  if (wishes.audits) {
    constexpr std::array<double, 3> kFractions{0.2, 1, 1};
    scenario.audit_fraction = kFractions[MixAll(seed, 0x6175646974) % kFractions.size()];
  }
  if (wishes.survive) {
    scenario.survive_region_loss = true;
    scenario.balance = protocol::BalancePolicy::kEvent;
    scenario.pods = 0;
    // Moves take their time, and are to be seen.
    scenario.job.steps += 30;
  }
  if (wishes.sparse) scenario.mesh = {.all_up_to = 0, .degree = 1};
  return scenario;
}

std::string Scenario::RegionOf(const protocol::WorkerId& id) const {
  return regions == 0 ? "" : "r" + std::to_string(MixName(2, id.value) % regions);
}

std::string Describe(const Scenario& scenario) {
  const Job& job = scenario.job;
  std::string text = "seed " + std::to_string(scenario.seed) + ": replicas";
  for (const std::uint64_t r : job.replicas) text += " " + std::to_string(r);
  text += ", " + std::to_string(job.microbatches) + " microbatches, " + std::to_string(job.steps) +
          " steps, " + (job.delayed ? "Delayed" : "Sync") + (job.tied_head ? ", tied head" : "") +
          (job.order_sensitive ? ", order-sensitive sums" : "") + (job.divided ? ", divided" : "") +
          (job.local ? ", local steps in " + std::to_string(job.fragments) + " fragments" : "") +
          (job.overflows ? ", overflows" : "") + (job.skips ? ", skips" : "");
  if (job.checkpoints) text += ", checkpoint every " + std::to_string(job.checkpoint_interval);
  if (job.validation_interval > 0) {
    text += ", validation every " + std::to_string(job.validation_interval);
  }
  if (scenario.retained_bytes_max < 1000) {
    text += ", retains " + std::to_string(scenario.retained_bytes_max) + " bytes";
  }
  if (scenario.audit_fraction > 0) {
    text += ", audits of " + std::to_string(scenario.audit_fraction);
  }
  if (scenario.regions > 0) text += ", " + std::to_string(scenario.regions) + " regions";
  if (scenario.survive_region_loss) text += " of which one may be lost";
  text += ", " + std::to_string(scenario.faults) + " faults of";
  for (const FaultKind kind : scenario.kinds) text += " " + std::string(NameOf(kind));
  return text;
}

}  // namespace swarm::simulation
