#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "api/format/enum_names.h"
#include "base/gibibytes.h"
#include "planner/cuts.h"
#include "planner/stage_memory.h"

namespace swarm::planner {
namespace {

using Counts = std::vector<std::uint64_t>;

constexpr std::uint64_t kStagesMax = 64;
/// So many ways to leave machines idle are tried.
constexpr std::uint64_t kUsesMax = 32;
constexpr std::uint64_t kMicrobatchMax = 64;
/// Plans within this share of the best are equal.
constexpr double kTie = 0.01;
constexpr double kTurnMax = 1000;

std::uint64_t Sum(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return sum;
}

/// How many machines of each group are used. All combinations in a small fleet; in a large one
/// each group as a whole or not at all, and besides all machines of the others an ever smaller
/// part of one group.
std::vector<Counts> UsesOf(const Fleet& fleet) {
  std::uint64_t combinations = 1;
  for (const Machines& group : fleet.groups) {
    combinations = std::min(combinations * (group.count + 1), kUsesMax + 1);
  }
  std::vector<Counts> uses = {{}};
  for (const Machines& group : fleet.groups) {
    Counts choices;
    if (combinations <= kUsesMax) {
      for (std::uint64_t n = 0; n <= group.count; ++n) choices.push_back(n);
    } else {
      for (std::uint64_t n = group.count; n > 0; n = n * 3 / 4) choices.push_back(n);
      choices.push_back(0);
      const std::size_t room = std::max<std::size_t>(2, kUsesMax * 2 / uses.size());
      if (choices.size() > room) choices = {group.count, 0};
    }
    std::vector<Counts> longer;
    for (const Counts& use : uses) {
      for (const std::uint64_t n : choices) {
        longer.push_back(use);
        longer.back().push_back(n);
      }
    }
    uses = std::move(longer);
    if (uses.size() > kUsesMax * 2) uses.resize(kUsesMax * 2);
  }
  return uses;
}

class Search {
 public:
  explicit Search(const Request& request) : request_(request) {}

  std::vector<Plan> All();
  std::uint64_t candidates() const { return candidates_; }

 private:
  std::vector<std::uint64_t> StageChoices() const;
  std::vector<std::uint64_t> MicrobatchChoices() const;
  std::vector<api::BoundaryCodec> CodecChoices() const;
  std::vector<api::StepMode> ModeChoices() const;
  void Try(const api::Spec& spec, const ModelCosts& model, const Counts& use);
  void TryCodecs(Way way, const ModelCosts& model);

  const Request& request_;
  std::uint64_t candidates_ = 0;
  std::vector<Plan> found_;
};

std::vector<std::uint64_t> Search::StageChoices() const {
  const api::Spec& spec = request_.job.spec;
  if (!request_.open.stages) return {spec.pipeline.stages};
  std::uint64_t machines = 0;
  for (const Machines& group : request_.fleet.groups) machines += group.count;
  const auto layers = static_cast<std::uint64_t>(spec.model.config.num_hidden_layers);
  const std::uint64_t most =
      std::min({machines / std::max<std::uint64_t>(1, spec.pipeline.minReplicasPerStage), layers,
                kStagesMax});
  std::vector<std::uint64_t> choices;
  for (std::uint64_t n = 1; n <= most; n += 1 + n / 16) choices.push_back(n);
  return choices;
}

std::vector<std::uint64_t> Search::MicrobatchChoices() const {
  const api::Training& training = request_.job.spec.training;
  if (!request_.open.microbatch) return {training.microbatchSize};
  std::vector<std::uint64_t> choices;
  for (std::uint64_t n = 1; n <= std::min(training.globalBatchSize, kMicrobatchMax); ++n) {
    const bool is_power = (n & (n - 1)) == 0;
    if (is_power && training.globalBatchSize % n == 0) choices.push_back(n);
  }
  return choices;
}

std::vector<api::BoundaryCodec> Search::CodecChoices() const {
  using api::BoundaryCodec;
  if (!request_.open.codec) return {request_.job.spec.pipeline.boundary.codec};
  return {BoundaryCodec::kNone, BoundaryCodec::kBF16, BoundaryCodec::kInt8};
}

std::vector<api::StepMode> Search::ModeChoices() const {
  if (!request_.open.step_mode) return {request_.job.spec.training.stepMode};
  return {api::StepMode::kSync, api::StepMode::kDelayed};
}

std::vector<Plan> Search::All() {
  const std::vector<Counts> uses = UsesOf(request_.fleet);
  const api::Spec& wanted = request_.job.spec;
  const ModelCosts model(wanted);
  for (const std::uint64_t stages : StageChoices()) {
    for (const Counts& use : uses) {
      const std::uint64_t machines = Sum(use);
      if (machines < stages * wanted.pipeline.minReplicasPerStage) continue;
      if (!request_.open.replicas && machines != wanted.workers.replicas) continue;
      for (const std::uint64_t microbatch : MicrobatchChoices()) {
        for (const api::StepMode mode : ModeChoices()) {
          api::Spec spec = wanted;
          spec.pipeline.stages = stages;
          spec.training.microbatchSize = microbatch;
          spec.training.stepMode = mode;
          Try(spec, model, use);
        }
      }
    }
  }
  return std::move(found_);
}

/// Where the trainer puts machines that come in the order of the fleet: each goes to the first of
/// the stages that lack most (worker/protocol/coordinator/membership/loading.h), and stages have
/// equal numbers of replicas, the first ones the rest (api/model/layout.h).
std::vector<Counts> PlaceMachines(const Counts& use, std::size_t stages) {
  Counts lacks(stages, Sum(use) / stages);
  for (std::size_t s = 0; s < Sum(use) % stages; ++s) ++lacks[s];
  std::vector<Counts> machines(stages, Counts(use.size(), 0));
  for (std::size_t g = 0; g < use.size(); ++g) {
    for (std::uint64_t n = 0; n < use[g]; ++n) {
      const auto most = static_cast<std::size_t>(std::ranges::max_element(lacks) - lacks.begin());
      --lacks[most];
      ++machines[most][g];
    }
  }
  return machines;
}

/// The model is cut for the machines that each stage gets.
void Search::Try(const api::Spec& spec, const ModelCosts& model, const Counts& use) {
  const std::size_t stages = spec.pipeline.stages;
  const Fleet& fleet = request_.fleet;
  std::vector<std::uint64_t> allowed;
  if (!request_.open.layers && spec.pipeline.boundary.layers && stages > 1) {
    allowed = *spec.pipeline.boundary.layers;
    if (allowed.size() + 1 < stages) return;
  }
  std::vector<Counts> machines = PlaceMachines(use, stages);
  std::vector<double> speeds(stages, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t g = 0; g < use.size(); ++g) {
      speeds[s] += static_cast<double>(machines[s][g]) * fleet.groups[g].flops;
    }
  }
  const auto fits = [&](std::size_t s, Run run) {
    const bool alone = Sum(machines[s]) == 1;
    for (std::size_t g = 0; g < use.size(); ++g) {
      const Machines& group = fleet.groups[g];
      if (machines[s][g] == 0 || group.room() <= 0) continue;
      if (LeastMemory(spec, model, group, run, alone) > group.room()) return false;
    }
    return true;
  };
  auto runs = CutModel(model, speeds, allowed, fits);
  if (runs) TryCodecs({spec, *std::move(runs), std::move(machines)}, model);
}

void Search::TryCodecs(Way way, const ModelCosts& model) {
  for (const api::BoundaryCodec codec : CodecChoices()) {
    way.spec.pipeline.boundary.codec = codec;
    ++candidates_;
    found_.push_back({way, Predict(way, model, request_.fleet)});
    if (way.runs.size() == 1) return;  // no boundary
  }
}

double Worth(const Plan& plan, Goal goal) {
  const Prediction& prediction = plan.prediction;
  return goal == Goal::kTokensPerDollar && prediction.tokens_per_dollar > 0
             ? prediction.tokens_per_dollar
             : prediction.tokens_per_second;
}

std::uint64_t MachinesOf(const Plan& plan) {
  std::uint64_t sum = 0;
  for (const StagePrediction& stage : plan.prediction.stages) sum += stage.machines;
  return sum;
}

auto Kind(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  return std::tuple(spec.pipeline.stages, spec.pipeline.boundary.codec, spec.training.stepMode);
}

/// The plainer, the less.
auto Plainness(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  return std::tuple(spec.pipeline.boundary.codec, spec.training.stepMode, spec.pipeline.stages,
                    MachinesOf(plan));
}

/// Among those within a tie of the best, the plainest.
std::size_t BestOf(const std::vector<Plan>& plans, Goal goal) {
  double most = 0;
  for (const Plan& plan : plans) most = std::max(most, Worth(plan, goal));
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (Worth(plans[i], goal) < most * (1 - kTie)) continue;
    if (!best || Plainness(plans[i]) < Plainness(plans[*best]) ||
        (Plainness(plans[i]) == Plainness(plans[*best]) &&
         Worth(plans[i], goal) > Worth(plans[*best], goal))) {
      best = i;
    }
  }
  return *best;
}

Fleet Scaled(Fleet fleet, double links, double devices) {
  for (Link& link : fleet.links) link.rate *= links;
  for (Machines& group : fleet.groups) {
    group.upload *= links;
    group.download *= links;
    group.flops *= devices;
  }
  return fleet;
}

/// The factor nearest to 1, up or down to `end`, at which the other plan is better.
template <typename Wins>
std::optional<double> FirstWin(double end, const Wins& wins) {
  constexpr int kSteps = 60, kHalvings = 20;
  double before = 1;
  for (int i = 1; i <= kSteps; ++i) {
    double at = std::pow(end, static_cast<double>(i) / kSteps);
    if (!wins(at)) {
      before = at;
      continue;
    }
    for (int n = 0; n < kHalvings; ++n) {
      const double middle = std::sqrt(before * at);
      (wins(middle) ? at : before) = middle;
    }
    return at;
  }
  return std::nullopt;
}

Turn TurnOf(const Plan& best, const Plan& other, const Request& request) {
  const ModelCosts model(request.job.spec);
  const bool plainer = Plainness(other) < Plainness(best);
  const auto wins = [&](double links, double devices) {
    const Fleet fleet = Scaled(request.fleet, links, devices);
    const auto worth = [&](const Plan& plan) {
      return Worth({plan.way, Predict(plan.way, model, fleet)}, request.goal);
    };
    return plainer ? worth(other) >= worth(best) * (1 - kTie)
                   : worth(other) * (1 - kTie) > worth(best);
  };
  const auto links = [&](double factor) { return wins(factor, 1); };
  const auto devices = [&](double factor) { return wins(1, factor); };
  return {FirstWin(1 / kTurnMax, links), FirstWin(kTurnMax, links), FirstWin(1 / kTurnMax, devices),
          FirstWin(kTurnMax, devices)};
}

bool Fits(const Request& request) { return !Search(request).All().empty(); }

/// What would make it fit: a change of one thing each.
std::vector<std::string> ChangesFor(const Request& request) {
  std::vector<std::string> changes;
  const api::Spec& spec = request.job.spec;
  const auto try_change = [&](const Request& changed, const std::string& text) {
    if (Fits(changed)) changes.push_back(text);
  };
  if (!request.open.microbatch && spec.training.microbatchSize > 1) {
    Request changed = request;
    for (std::uint64_t n = spec.training.microbatchSize; n-- > 1;) {
      if (spec.training.globalBatchSize % n != 0) continue;
      changed.job.spec.training.microbatchSize = n;
      if (!Fits(changed)) continue;
      changes.push_back("training.microbatchSize: " + std::to_string(n));
      break;
    }
  }
  for (const auto recompute : {api::Recompute::kLayers, api::Recompute::kFull}) {
    if (recompute <= spec.pipeline.recompute) continue;
    Request changed = request;
    changed.job.spec.pipeline.recompute = recompute;
    try_change(changed, "pipeline.recompute: " + std::string(NameOf(recompute)));
    if (!changes.empty()) break;
  }
  if (!request.open.stages) {
    Request changed = request;
    changed.open.stages = true;
    const auto plans = Search(changed).All();
    std::uint64_t fewest = 0;
    for (const Plan& plan : plans) {
      const std::uint64_t stages = plan.way.spec.pipeline.stages;
      if (fewest == 0 || stages < fewest) fewest = stages;
    }
    if (fewest > 0) changes.push_back("pipeline.stages: " + std::to_string(fewest));
  }
  if (spec.pipeline.residency == api::Residency::kResident) {
    Request changed = request;
    changed.job.spec.pipeline.residency = api::Residency::kOffload;
    try_change(changed, "pipeline.residency: Offload");
  }
  // More machines of a group, or more memory in each of its machines.
  for (std::size_t g = 0; g < request.fleet.groups.size(); ++g) {
    const std::string& name = request.fleet.groups[g].name;
    constexpr std::uint64_t kMoreMax = 64;
    const auto with = [&](std::uint64_t more) {
      Request changed = request;
      changed.fleet.groups[g].count += more;
      return changed;
    };
    if (request.open.replicas && Fits(with(kMoreMax))) {
      std::uint64_t low = 0, high = kMoreMax;
      while (high - low > 1) {
        const std::uint64_t middle = (low + high) / 2;
        (Fits(with(middle)) ? high : low) = middle;
      }
      changes.push_back(std::to_string(high) + " more machines " + name);
    }
    const auto larger = [&](double factor) {
      Request changed = request;
      changed.fleet.groups[g].memory_bytes *= factor;
      changed.fleet.groups[g].device_bytes *= factor;
      return changed;
    };
    constexpr double kFactorMax = 1024;
    if (!Fits(larger(kFactorMax))) continue;
    double low = 1, high = kFactorMax;
    for (int n = 0; n < 24; ++n) {
      const double middle = std::sqrt(low * high);
      (Fits(larger(middle)) ? high : low) = middle;
    }
    const Machines& group = request.fleet.groups[g];
    const bool device = group.device_bytes > 0;
    changes.push_back((device ? "devices with " : "memory of ") +
                      GibibytesText(high * (device ? group.device_bytes : group.memory_bytes)) +
                      " in machines " + name + ", instead of " +
                      GibibytesText(device ? group.device_bytes : group.memory_bytes));
  }
  return changes;
}

}  // namespace

Plans FindPlans(const Request& request, std::size_t at_most) {
  Search search(request);
  std::vector<Plan> all = search.All();
  Plans result;
  result.candidates = search.candidates();
  if (all.empty()) {
    result.changes = ChangesFor(request);
    return result;
  }
  // The best of each kind, the best of all first.
  std::map<decltype(Kind(all.front())), std::vector<Plan>> kinds;
  const std::size_t best = BestOf(all, request.goal);
  const auto best_kind = Kind(all[best]);
  result.plans.push_back(all[best]);
  for (Plan& plan : all) kinds[Kind(plan)].push_back(std::move(plan));
  std::vector<Plan> others;
  for (auto& [kind, plans] : kinds) {
    if (kind != best_kind) others.push_back(plans[BestOf(plans, request.goal)]);
  }
  std::ranges::stable_sort(others, [&](const Plan& a, const Plan& b) {
    return Worth(a, request.goal) > Worth(b, request.goal);
  });
  for (Plan& plan : others) {
    if (result.plans.size() >= at_most) break;
    result.turns.push_back(TurnOf(result.plans.front(), plan, request));
    result.plans.push_back(std::move(plan));
  }
  return result;
}

}  // namespace swarm::planner
