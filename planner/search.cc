#include "planner/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "api/format/enum_names.h"
#include "api/validate.h"
#include "base/gibibytes.h"
#include "planner/cuts.h"
#include "planner/places.h"
#include "planner/ranking.h"
#include "planner/segment_choice.h"
#include "planner/stage_memory.h"
#include "planner/turns.h"

namespace swarm::planner {
namespace {

using Counts = std::vector<std::uint64_t>;

/// So many ways to leave machines idle are tried.
constexpr std::uint64_t kUsesMax = 32;
constexpr std::uint64_t kMicrobatchMax = 64;
constexpr double kTie = kPlanTie;
/// Of so many of the most promising swapped ways the segments are searched.
constexpr std::size_t kRefinedMax = 16;

/// Of each of these, those with so many machines of one group instead that together they are
/// `wanted`.
std::vector<Counts> WithSum(const std::vector<Counts>& uses, const Fleet& fleet,
                            std::uint64_t wanted) {
  std::vector<Counts> filled;
  for (const Counts& use : uses) {
    for (std::size_t g = 0; g < use.size(); ++g) {
      const std::uint64_t others = MachinesIn(use) - use[g];
      if (wanted < others || wanted - others > fleet.groups[g].count) continue;
      Counts with = use;
      with[g] = wanted - others;
      if (std::ranges::find(filled, with) == filled.end()) filled.push_back(std::move(with));
    }
  }
  return filled;
}

/// How many machines of each group are used: `wanted` together, if that is said. All combinations
/// in a small fleet; in a large one each group as a whole or not at all, and besides all machines
/// of the others an ever smaller part of one group.
std::vector<Counts> UsesOf(const Fleet& fleet, std::optional<std::uint64_t> wanted) {
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
  if (wanted) uses = WithSum(uses, fleet, *wanted);
  return uses;
}

/// The most layers of a stage, by what else it has: nothing, the embedding, the head, both.
using Most = std::array<std::uint64_t, 4>;

std::size_t EndsOf(Run run, std::uint64_t layers) {
  return (run.first == 0 ? 1 : 0) + (run.first + run.count == layers ? 2 : 0);
}

/// The most layers for which a machine of the group has the memory.
Most MostLayers(const api::Spec& spec, const ModelCosts& model, const Machines& group, bool alone) {
  const std::uint64_t layers = model.layers();
  Most most;
  most.fill(layers);
  if (group.room() <= 0 && spec.pipeline.residency != api::Residency::kSwap) return most;
  const double room = group.room() > 0 ? group.room() : kRoomMax;
  const auto fits = [&](Run run) { return LeastMemory(spec, model, group, run, alone) <= room; };
  // The more layers, the more memory.
  const auto longest = [&](std::uint64_t at_most, const auto& run_of) {
    std::uint64_t low = 0, high = at_most + 1;
    while (high - low > 1) {
      const std::uint64_t middle = (low + high) / 2;
      (fits(run_of(middle)) ? low : high) = middle;
    }
    return low;
  };
  using Count = std::uint64_t;
  return {longest(std::max<Count>(layers, 2) - 2, [](Count n) { return Run{1, n}; }),
          longest(layers - 1, [](Count n) { return Run{0, n}; }),
          longest(layers - 1, [&](Count n) { return Run{layers - n, n}; }),
          fits({0, layers}) ? layers : 0};
}

class Search {
 public:
  explicit Search(const Request& request);

  /// All ways that fit, as PredictRoomy sees them.
  std::vector<Plan> All() const;
  /// With which the job fits; none: it fits nowhere.
  std::optional<std::uint64_t> FewestStages() const;

 private:
  /// How a step is made, and where the state is.
  struct Mode {
    api::StepMode step_mode;
    bool overlap;  ///< of kLocal
    std::optional<api::Residency> residency;
  };
  /// A microbatch and a mode.
  struct Variant {
    api::Spec spec;
    std::vector<std::array<Most, 2>> most;  // of each group; [1]: without another machine
  };
  using Cuts = std::optional<std::vector<Run>>;

  std::vector<std::uint64_t> StageChoices() const;
  std::vector<std::uint64_t> MicrobatchChoices() const;
  std::vector<api::BoundaryCodec> CodecChoices() const;
  std::vector<Mode> ModeChoices() const;
  /// Calls `use_way` with each way that fits, whatever the codec, until that says to stop (false).
  template <typename Call>
  void EachWay(const Call& use_way) const;
  Cuts Cut(const ModelCosts& model, const std::vector<Counts>& machines,
           const std::vector<Most>& most) const;

  const Request& request_;
  const Costs costs_;
  std::vector<Variant> variants_;
};

Search::Search(const Request& request) : request_(request), costs_(request.job.spec) {
  for (const std::uint64_t microbatch : MicrobatchChoices()) {
    for (const Mode& mode : ModeChoices()) {
      Variant variant{.spec = request.job.spec};
      variant.spec.training.microbatchSize = microbatch;
      variant.spec.training.stepMode = mode.step_mode;
      variant.spec.training.local.overlap = mode.overlap;
      variant.spec.pipeline.residency = mode.residency;
      if (!api::ValidateResidency(variant.spec).empty()) continue;
      for (const Machines& group : request.fleet.groups) {
        const ModelCosts& model = costs_.Of(variant.spec);
        variant.most.push_back({MostLayers(variant.spec, model, group, false),
                                MostLayers(variant.spec, model, group, true)});
      }
      variants_.push_back(std::move(variant));
    }
  }
}

std::vector<std::uint64_t> Search::StageChoices() const {
  const api::Spec& spec = request_.job.spec;
  if (!request_.open.stages) return {spec.pipeline.stages};
  std::uint64_t machines = 0;
  for (const Machines& group : request_.fleet.groups) machines += group.count;
  const auto layers = static_cast<std::uint64_t>(spec.model.config.num_hidden_layers);
  // Stages of Local cannot share the embedding (api::ValidateFit).
  const bool shares =
      spec.training.stepMode == api::StepMode::kLocal && spec.model.trains_tied_head();
  const std::uint64_t most =
      std::min({machines / std::max<std::uint64_t>(1, spec.pipeline.minReplicasPerStage),
                shares ? 1 : layers, request_.stages_max});
  // All small numbers; of large ones some, those with equally many layers in all stages but the
  // last, and the largest.
  std::set<std::uint64_t> choices = {most};
  for (std::uint64_t n = 1; n <= most; n += 1 + n / 16) choices.insert(n);
  for (std::uint64_t each = 1; each <= layers; ++each) choices.insert((layers + each - 1) / each);
  std::erase_if(choices, [&](std::uint64_t n) { return n < request_.stages_min || n > most; });
  return {choices.begin(), choices.end()};
}

std::vector<std::uint64_t> Search::MicrobatchChoices() const {
  const api::Training& training = request_.job.spec.training;
  // A microbatch of Local is the batch of a step, so another one trains differently.
  const bool is_open = request_.open.microbatch && training.stepMode != api::StepMode::kLocal;
  if (!is_open) return {training.microbatchSize};
  std::vector<std::uint64_t> choices;
  std::uint64_t most = std::min(training.globalBatchSize, kMicrobatchMax);
  // A validation loss is of whole microbatches.
  if (!request_.job.spec.data.validationUri.empty()) {
    most = std::min(most, training.validationSequences);
  }
  for (std::uint64_t n = 1; n <= most; ++n) {
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

std::vector<Search::Mode> Search::ModeChoices() const {
  const api::Training& training = request_.job.spec.training;
  std::vector<api::StepMode> modes = {training.stepMode};
  std::vector<bool> overlaps = {training.local.overlap};
  std::vector<std::optional<api::Residency>> residencies = {request_.job.spec.pipeline.residency};
  if (training.stepMode == api::StepMode::kLocal) {
    if (request_.open.overlap) overlaps = {false, true};
  } else if (request_.open.step_mode) {
    modes = {api::StepMode::kSync, api::StepMode::kDelayed};
  }
  const bool can_swap = std::ranges::any_of(request_.fleet.groups, [](const Machines& group) {
    return group.disk > 0 || group.device_bytes > 0;
  });
  const bool is_open = request_.open.residency && !request_.job.spec.pipeline.residency;
  if (is_open && can_swap) residencies.emplace_back(api::Residency::kSwap);
  std::vector<Mode> choices;
  for (const api::StepMode mode : modes) {
    for (const bool overlap : overlaps) {
      for (const auto& residency : residencies) choices.push_back({mode, overlap, residency});
    }
  }
  return choices;
}

/// Where the trainer puts machines that come in the order of the fleet: each goes to the first of
/// the stages that lack most (worker/protocol/coordinator/membership/loading.h), and stages have
/// equal numbers of replicas, the first ones the rest (api/model/layout.h).
std::vector<Counts> PlaceMachines(const Counts& use, std::size_t stages) {
  Counts lacks(stages, MachinesIn(use) / stages);
  for (std::size_t s = 0; s < MachinesIn(use) % stages; ++s) ++lacks[s];
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

/// Whether no machine is used behind one that stays idle.
bool IsInOrder(const Counts& use, const Fleet& fleet) {
  bool idle = false;
  for (std::size_t g = 0; g < use.size(); ++g) {
    if (idle && use[g] > 0) return false;
    idle = idle || use[g] < fleet.groups[g].count;
  }
  return true;
}

template <typename Call>
void Search::EachWay(const Call& use_way) const {
  const api::Spec& wanted = request_.job.spec;
  const std::vector<Counts> uses =
      UsesOf(request_.fleet,
             request_.open.replicas ? std::nullopt : std::optional(wanted.workers.replicas));
  for (const std::uint64_t stages : StageChoices()) {
    for (const Counts& use : uses) {
      const std::uint64_t count = MachinesIn(use);
      if (count < stages * wanted.pipeline.minReplicasPerStage) continue;
      if (request_.in_order && !IsInOrder(use, request_.fleet)) continue;
      const std::vector<Counts> machines = PlaceMachines(use, stages);
      // Many variants have room for the same layers.
      std::map<std::pair<const ModelCosts*, std::vector<Most>>, Cuts> cuts;
      for (const Variant& variant : variants_) {
        const ModelCosts& model = costs_.Of(variant.spec);
        std::vector<Most> most(stages);
        for (std::size_t s = 0; s < stages; ++s) {
          most[s].fill(model.layers());
          const std::size_t alone = MachinesIn(machines[s]) == 1 ? 1 : 0;
          for (std::size_t g = 0; g < use.size(); ++g) {
            if (machines[s][g] == 0) continue;
            for (std::size_t ends = 0; ends < most[s].size(); ++ends) {
              most[s][ends] = std::min(most[s][ends], variant.most[g][alone][ends]);
            }
          }
        }
        auto known = cuts.find({&model, most});
        if (known == cuts.end()) {
          known = cuts.emplace(std::pair(&model, most), Cut(model, machines, most)).first;
        }
        if (!known->second) continue;
        Way way{variant.spec, *known->second, machines};
        way.spec.pipeline.stages = stages;
        if (!use_way(std::move(way))) return;
      }
    }
  }
}

/// The model is cut for the machines that each stage gets.
Search::Cuts Search::Cut(const ModelCosts& model, const std::vector<Counts>& machines,
                         const std::vector<Most>& most) const {
  const std::size_t stages = machines.size();
  const auto& layers = request_.job.spec.pipeline.boundary.layers;
  std::vector<std::uint64_t> allowed;
  if (!request_.open.layers && layers && stages > 1) {
    allowed = *layers;
    if (allowed.size() + 1 < stages) return std::nullopt;
  }
  std::vector<double> speeds(stages, 0);
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t g = 0; g < machines[s].size(); ++g) {
      speeds[s] += static_cast<double>(machines[s][g]) * request_.fleet.groups[g].flops;
    }
  }
  return CutModel(model, speeds, allowed, [&](std::size_t s, Run run) {
    return run.count <= most[s][EndsOf(run, model.layers())];
  });
}

std::vector<Plan> Search::All() const {
  std::vector<Plan> found;
  EachWay([&](Way way) {
    for (const api::BoundaryCodec codec : CodecChoices()) {
      way.spec.pipeline.boundary.codec = codec;
      found.push_back({way, PredictRoomy(way, costs_.Of(way.spec), request_.fleet)});
      if (way.runs.size() == 1) break;  // no boundary
    }
    return true;
  });
  return found;
}

std::optional<std::uint64_t> Search::FewestStages() const {
  std::optional<std::uint64_t> fewest;
  EachWay([&](const Way& way) {  // in the order of their numbers
    fewest = way.runs.size();
    return false;
  });
  return fewest;
}

auto Kind(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  return std::tuple(spec.pipeline.stages, spec.pipeline.boundary.codec, spec.training.stepMode,
                    spec.training.local.overlap, spec.pipeline.residency);
}

/// Among those within a tie of the best, the plainest.
std::size_t BestOf(const std::vector<Plan>& plans, Goal goal) {
  double most = 0;
  for (const Plan& plan : plans) most = std::max(most, Worth(plan.prediction, goal));
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double worth = Worth(plans[i].prediction, goal);
    if (worth < most * (1 - kTie)) continue;
    if (!best || Plainness(plans[i]) < Plainness(plans[*best]) ||
        (Plainness(plans[i]) == Plainness(plans[*best]) &&
         worth > Worth(plans[*best].prediction, goal))) {
      best = i;
    }
  }
  return *best;
}

/// The plans that may be chosen, as Predict sees them, in their order. None is chosen that is not
/// within a tie of the best of its kind; so the most promising ones are predicted first, and most
/// others need not be.
std::vector<Plan> Contenders(std::vector<Plan> plans, const Request& request) {
  const Costs costs(request.job.spec);
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::size_t i) { return Worth(plans[i].prediction, request.goal); });
  std::map<decltype(Kind(plans.front())), double> most;
  std::vector<bool> contends(plans.size(), false);
  std::size_t refined = 0;
  for (const std::size_t i : order) {
    Prediction& prediction = plans[i].prediction;
    double& best = most[Kind(plans[i])];
    if (Worth(prediction, request.goal) * (1 + kRounding) < best * (1 - kTie)) continue;
    contends[i] = true;
    const ModelCosts& model = costs.Of(plans[i].way.spec);
    if (prediction.in_flight_max) prediction = Predict(plans[i].way, model, request.fleet);
    if (IsSwapped(plans[i]) && refined++ < kRefinedMax) {
      plans[i] = WithBestSegments(plans[i], model, request);
    }
    best = std::max(best, Worth(prediction, request.goal));
  }
  std::vector<Plan> kept;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (contends[i]) kept.push_back(std::move(plans[i]));
  }
  return kept;
}

bool Fits(const Request& request) { return Search(request).FewestStages().has_value(); }

/// The least factor with which something fits; none: not within a factor of a thousand.
template <typename Fitting>
std::optional<double> FewestTimes(const Fitting& fits) {
  constexpr double kFactorMax = 1024;
  if (!fits(kFactorMax)) return std::nullopt;
  double low = 1, high = kFactorMax;
  for (int n = 0; n < 24; ++n) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

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
    const auto fewest = Search(changed).FewestStages();
    if (fewest) changes.push_back("pipeline.stages: " + std::to_string(*fewest));
  }
  if (spec.pipeline.residency == api::Residency::kResident) {
    Request changed = request;
    changed.job.spec.pipeline.residency = api::Residency::kOffload;
    try_change(changed, "pipeline.residency: Offload");
  }
  if (!request.open.residency && spec.pipeline.residency != api::Residency::kSwap) {
    Request changed = request;
    changed.job.spec.pipeline.residency = api::Residency::kSwap;
    try_change(changed, "pipeline.residency: Swap");
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
    const Machines& group = request.fleet.groups[g];
    const auto with_more = [&](double Machines::* memory, const char* what) {
      const auto larger = [&](double factor) {
        Request changed = request;
        changed.fleet.groups[g].*memory *= factor;
        return changed;
      };
      if (const auto factor = FewestTimes([&](double times) { return Fits(larger(times)); })) {
        changes.push_back(what + GibibytesText(*factor * group.*memory) + " in machines " + name +
                          ", instead of " + GibibytesText(group.*memory));
      }
    };
    if (group.device_bytes > 0) with_more(&Machines::device_bytes, "devices with ");
    if (group.memory_bytes > 0) with_more(&Machines::memory_bytes, "memory of ");
    if (group.disk <= 0 && group.device_bytes > 0) {
      Request changed = request;
      changed.fleet.groups[g].disk = 1;  // any
      try_change(changed, "a disk in machines " + name + " (diskMBps), for what is swapped");
    }
  }
  for (const auto& [memory, field] : {std::pair(&api::PipelineMemory::host, "host"),
                                      std::pair(&api::PipelineMemory::device, "device")}) {
    const std::uint64_t bytes = spec.pipeline.memory.*memory;
    if (bytes == 0) continue;
    const auto larger = [&](double factor) {
      Request changed = request;
      changed.job.spec.pipeline.memory.*memory =
          static_cast<std::uint64_t>(static_cast<double>(bytes) * factor);
      return changed;
    };
    if (const auto factor = FewestTimes([&](double times) { return Fits(larger(times)); })) {
      changes.push_back(std::string("pipeline.memory.") + field + ": " +
                        GibibytesText(*factor * static_cast<double>(bytes)));
    }
  }
  return changes;
}

}  // namespace

Plans FindPlans(const Request& request, std::size_t at_most) {
  std::vector<Plan> all = Search(request).All();
  Plans result;
  result.candidates = all.size();
  if (all.empty()) {
    result.changes = ChangesFor(request);
    return result;
  }
  all = Contenders(std::move(all), request);
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
    return Worth(a.prediction, request.goal) > Worth(b.prediction, request.goal);
  });
  const Plan chosen = result.plans.front();
  const auto swapped = std::ranges::find_if(others, IsSwapped);
  const bool on_devices = std::ranges::any_of(
      request.fleet.groups, [](const Machines& group) { return group.device_bytes > 0; });
  if (on_devices && at_most > 1 && !IsSwapped(chosen) && swapped != others.end() &&
      swapped - others.begin() >= static_cast<std::ptrdiff_t>(at_most) - 1) {
    std::rotate(others.begin() + static_cast<std::ptrdiff_t>(at_most) - 2, swapped, swapped + 1);
  }
  Turns turns(chosen, request);
  for (Plan& plan : others) {
    if (result.plans.size() >= at_most) break;
    result.turns.push_back(turns.Of(plan));
    result.plans.push_back(std::move(plan));
  }
  return result;
}

}  // namespace swarm::planner
