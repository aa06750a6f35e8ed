#include "planner/swapping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/model/memory.h"
#include "api/model/residency.h"
#include "api/model/stage_graph.h"
#include "worker/model/segments/plan.h"

namespace swarm::planner {
namespace {

/// Of a parameter: a weight, a gradient, an exact sum, two moments.
constexpr double kWeight = 4, kGradient = 4, kExactSum = 8, kMoments = 8;
/// Where the fleet does not say how much memory a machine has: more than any stage needs, and small
/// enough to be multiplied.
constexpr std::uint64_t kEnough = std::uint64_t{1} << 50;

std::uint64_t Whole(double bytes) {
  return static_cast<std::uint64_t>(std::min(bytes, static_cast<double>(kEnough)));
}

/// What a worker takes of the host (worker/stage/load.cc).
std::uint64_t HostMemory(const api::Spec& spec, const Machines& group) {
  const std::uint64_t wanted = spec.pipeline.memory.host;
  if (group.memory_bytes <= 0) return wanted > 0 ? wanted : kEnough;
  return wanted > 0 ? wanted : Whole(group.memory_bytes / 2);
}

/// For segments, where they are computed, and whether the state is in the memory of the host.
api::SwapRoom RoomFor(const api::Spec& spec, const Parameters& parameters, const Machines& group) {
  const std::uint64_t host = HostMemory(spec, group);
  const std::uint64_t device = spec.pipeline.memory.device;
  if (group.device_bytes <= 0) return {false, device > 0 ? std::min(device, host) : host};
  api::SwarmJob job;
  job.spec = spec;
  return api::ChooseSwapRoom(job, parameters.trained, parameters.frozen, host,
                             Whole(group.device_bytes));
}

/// Of a piece of a state (checkpoint::kPieceBytes).
constexpr double kPieceBytes = 4 << 20;

/// Of a state, what lies in pieces of several tensors that change: about a piece of each matrix of
/// a layer, or of each that has an adapter. A layer has seven.
double SharedPart(const api::Spec& spec, const ModelCosts& model) {
  const double layer = static_cast<double>(model.layer().all()) * kWeight;
  const api::Lora& lora = spec.model.lora;
  const double pieces = lora.rank > 0 ? static_cast<double>(lora.targets.size()) : 7;
  return std::min(1.0, pieces * kPieceBytes / layer);
}

/// In the memory of a segment.
std::uint64_t SizeOf(const Parameters& parameters) {
  return parameters.trained + api::FrozenAsTrained(parameters.frozen);
}

double SumBytes(const Swapping& swapping) { return swapping.exact ? kExactSum : kGradient; }

/// Whether a machine has memory for so many mapped bytes beside the segments.
bool IsCached(const Swapping& swapping, double bytes, const Machines& group) {
  const double free = group.memory_bytes - static_cast<double>(swapping.memory);
  return group.memory_bytes <= 0 || bytes <= free;
}

/// As SwapStage of the worker does.
Result<model::SwapPlan> CutStage(const api::Spec& spec, const ModelCosts& model, Run run,
                                 std::uint64_t memory, std::uint64_t each, bool on_device) {
  const bool embedding = run.first == 0, head = run.first + run.count == model.layers();
  const std::uint64_t table = SizeOf(model.table());
  const model::StageSizes sizes{
      .embedding = embedding ? table : 0,
      .layers = std::vector<std::uint64_t>(run.count, SizeOf(model.layer())),
      .head = head ? table : 0};
  const model::Slice slice{static_cast<std::int64_t>(run.first),
                           static_cast<std::int64_t>(run.count), embedding, head};
  const model::SwapLimits limits{
      .memory = memory,
      .parameter_bytes = each,
      .task_bytes = api::GraphOf(spec, 0, /*head=*/false).boundary,
      .tasks = api::TasksTogether(spec),
      .pass_bytes = model::PassBytes(spec.training.accumulation, spec.model.lora.rank > 0)};
  return model::CutForUse(slice, sizes, limits,
                          {.on_device = on_device,
                           .exact = spec.training.accumulation == api::Accumulation::kExact,
                           .overlaps = spec.training.stepMode == api::StepMode::kDelayed});
}

SwapSegment SegmentOf(const ModelCosts& model, Run run, const model::Slice& slice) {
  const double all = model.Flops(run);
  if (slice.embedding) return {model.table(), 0};
  if (slice.head) return {model.table(), model.HeadFlops() / all};
  const Run layers{static_cast<std::uint64_t>(slice.first),
                   static_cast<std::uint64_t>(slice.count)};
  const bool is_last = layers.first + layers.count == model.layers();
  const double work = model.Flops(layers) - (is_last ? model.HeadFlops() : 0);
  return {{layers.count * model.layer().trained, layers.count * model.layer().frozen}, work / all};
}

/// Bytes a second of where the state is.
double TierRate(const Swapping& swapping, const Machines& group) {
  return swapping.in_memory ? MemoryRate(group) : group.disk;
}

/// Seconds for which the computing of a machine stands still for a byte of its disk: the host moves
/// it, and while one core does, the others wait for what that one would have computed. Beside a
/// device the host has nothing else to compute.
double DiskStandstill(const Swapping& swapping, const Machines& group) {
  const bool counts = !swapping.in_memory && group.device_bytes <= 0;
  return counts ? group.disk_seconds_per_byte : 0;
}

/// Passes of microbatches through segments, one segment after the other. Where no device with a
/// memory of its own computes, what comes from the tier is there.
class Passes {
 public:
  Passes(const Swapping& swapping, double seconds, double forward_share, const Machines& group)
      : swapping_(swapping),
        seconds_(seconds),
        forward_share_(forward_share),
        tier_(TierRate(swapping, group)),
        standstill_(DiskStandstill(swapping, group)),
        memory_(group.device_bytes > 0 ? MemoryRate(group) : kAtOnce),
        to_(group.device_bytes > 0 ? ToDevice(group) : kAtOnce),
        from_(group.device_bytes > 0 ? FromDevice(group) : kAtOnce) {}

  /// Of so many microbatches; the first pass of a step finds nothing on the device.
  void Pass(double tasks, bool is_first) {
    if (tasks <= 0) return;
    const std::vector<SwapSegment>& segments = swapping_.segments;
    const std::size_t count = segments.size();
    if (is_first) {
      Expose(ComesIn(0), kTier);
      tier_busy_ += Weights(0) * kWeight / tier_;
    }
    for (std::size_t s = 0; s < count; ++s) {
      const Carried carried = CarriedBy(s, count);
      Slot(segments[s].work * seconds_ * forward_share_, tasks,
           {.in = carried.in,
            .out = carried.out,
            .moves = s + 1 < count ? model::kForwardMoves : 0.0},
           s + 1 < count ? std::optional(s + 1) : std::nullopt, 0);
    }
    double leaving = 0;  // of the segment before, gradients
    for (std::size_t s = count; s-- > 0;) {
      const auto gradients = static_cast<double>(segments[s].parameters.trained) * kGradient *
                             (swapping_.exact ? tasks : 1);
      const Carried carried = CarriedBy(s, count);
      // The input and the gradient of the output come; that of the input leaves.
      Slot(segments[s].work * seconds_ * (1 - forward_share_), tasks,
           {.in = carried.in + carried.out,
            .out = carried.in,
            .moves = s > 0 ? model::kBackwardMoves : 0.0},
           s > 0 ? std::optional(s - 1) : std::nullopt, leaving);
      const bool beside = swapping_.leaves_beside && s > 0;
      leaving = beside ? gradients : 0;
      if (!beside) Expose(gradients / from_, kLink);
      if (s == 0) ExposeTier(gradients / tier_);
    }
    // Floats of the first pass become the step's sum as they are.
    if (is_first && !swapping_.exact) return;
    const double sums = swapping_.exact ? tasks : 1;
    const auto trained = static_cast<double>(swapping_.parameters.trained);
    ExposeTier(sums * (kGradient + 2 * SumBytes(swapping_)) * trained / tier_);
  }

  SwapTime time() const {
    const double waits = tier_waits_ + link_waits_;
    return {computes_ + waits, link_waits_ > tier_waits_ ? SwapWait::kLink : SwapWait::kTier,
            tier_busy_};
  }

 private:
  static constexpr bool kTier = true, kLink = false;
  static constexpr double kAtOnce = std::numeric_limits<double>::infinity();

  /// What a microbatch carries: from the host to a segment, and back; and how often that moves
  /// where it waits in the tier.
  struct Carried {
    double in, out, moves;
  };

  /// Of a forward: token ids and losses are few.
  Carried CarriedBy(std::size_t s, std::size_t count) const {
    return {.in = s == 0 && swapping_.embedding ? 0.0 : 1.0,
            .out = s + 1 == count && swapping_.head ? 0.0 : 1.0,
            .moves = 0};
  }
  double Weights(std::size_t s) const {
    return static_cast<double>(swapping_.segments[s].parameters.all());
  }
  /// From the tier to the device: as they are, made operands, and over the link.
  double ComesIn(std::size_t s) const {
    return Weights(s) * (kWeight / tier_ + kWeight / memory_ + swapping_.operand / to_);
  }
  void Expose(double seconds, bool by_tier) { (by_tier ? tier_waits_ : link_waits_) += seconds; }
  void ExposeTier(double seconds) {
    Expose(seconds, kTier);
    tier_busy_ += seconds;
  }
  /// While a segment computes with so many microbatches, `next` comes and gradients leave.
  void Slot(double computes, double tasks, Carried carried, std::optional<std::size_t> next,
            double leaving) {
    computes *= tasks;
    const double each = tasks * swapping_.boundary;
    const double weights = next ? Weights(*next) : 0;
    const double waiting = swapping_.inputs > 0 ? carried.moves * each : 0;
    const double moved = weights * kWeight + leaving + waiting;
    computes += moved * standstill_;
    tier_busy_ += moved / tier_;
    // The host copies what crosses from and to memory that a device reaches.
    const double by_host = std::max(
        {moved / tier_, (carried.in + carried.out) * each / memory_, next ? ComesIn(*next) : 0.0});
    const double link = std::max((carried.in * each + weights * swapping_.operand) / to_,
                                 (carried.out * each + leaving) / from_);
    computes_ += computes;
    const double longest = std::max({computes, by_host, link});
    Expose(longest - computes, by_host > link);
  }

  const Swapping& swapping_;
  const double seconds_, forward_share_, tier_, standstill_, memory_, to_, from_;
  double computes_ = 0, tier_waits_ = 0, link_waits_ = 0, tier_busy_ = 0;
};

/// Of an update, in seconds: its sums are shown, what it needs comes, is computed, and leaves.
struct UpdateParts {
  double shown, comes, computes, leaves;
  double tier() const { return shown + comes + leaves; }
  bool by_host() const { return computes > tier(); }
};

UpdateParts PartsOf(const Swapping& swapping, const Machines& group) {
  const double tier = TierRate(swapping, group);
  const auto trained = static_cast<double>(swapping.parameters.trained);
  const auto frozen = static_cast<double>(swapping.parameters.frozen);
  const double versions = static_cast<double>(swapping.versions) * kWeight + kMoments;
  const double again = swapping.shared * (trained * versions + frozen * kWeight);
  const double state = kWeight + kMoments;
  UpdateParts parts{.shown = SumBytes(swapping) * trained / tier,
                    .comes = (state + SumBytes(swapping)) * trained / tier,
                    .computes = 0,
                    .leaves = (state * trained + again) / tier};
  if (group.update_rate > 0 || group.device_bytes > 0) {
    parts.computes = trained / UpdateRate(group) +
                     (parts.comes + parts.leaves) * tier * DiskStandstill(swapping, group);
  }
  return parts;
}

}  // namespace

std::optional<Swapping> SwapStage(const api::Spec& spec, const ModelCosts& model,
                                  const Machines& group, Run run) {
  const bool on_device = group.device_bytes > 0;
  const api::SwapRoom room = RoomFor(spec, model.ParametersOf(run), group);
  if (!room.state_in_memory && group.disk <= 0) return std::nullopt;
  // A limit above what the host has would be that of a host which has less.
  if (on_device && group.memory_bytes > 0 && HostMemory(spec, group) > Whole(group.memory_bytes)) {
    return std::nullopt;
  }
  const std::uint64_t each = model::SegmentBytes(spec.training.precision);
  const std::uint64_t input = api::GraphOf(spec, 0, /*head=*/false).boundary;
  const auto plan = CutStage(spec, model, run, room.memory, each, on_device);
  if (!plan.ok()) return std::nullopt;
  Swapping swapping{.parameters = model.ParametersOf(run),
                    .tasks = plan->tasks,
                    .exact = spec.training.accumulation == api::Accumulation::kExact,
                    .layers = 1,
                    .shared = SharedPart(spec, model),
                    .versions = api::VersionsOf(spec),
                    .embedding = run.first == 0,
                    .head = run.first + run.count == model.layers(),
                    .segments = {},
                    .in_memory = room.state_in_memory,
                    .boundary = static_cast<double>(input),
                    .operand = spec.training.precision == api::Precision::kFP32 ? 4.0 : 2.0};
  // What may be in memory at once (worker/model/swap/swap_stage.cc).
  const std::uint64_t passing = plan->largest * each;
  const std::uint64_t updating =
      plan->largest * (each + static_cast<std::uint64_t>(SumBytes(swapping)));
  // In the memory of the host, a segment has room for a gradient that leaves.
  swapping.leaves_beside = plan->leaves_beside || !on_device;
  swapping.passes_beside = plan->updates_beside;
  swapping.updates_beside = 2 * updating <= room.memory;
  swapping.stores_beside = 3 * updating <= room.memory;
  std::uint64_t at_once = plan->leaves_beside ? 3 * passing : 2 * passing;
  if (plan->updates_beside && !on_device) at_once += updating;
  swapping.memory = std::min(room.memory, (at_once + 2) / 3 * 4);
  if (plan->inputs_in_tier) {
    swapping.inputs = static_cast<double>(input * (plan->segments.size() - 1));
  }
  for (const model::Slice& segment : plan->segments) {
    swapping.layers = std::max(swapping.layers, static_cast<std::uint64_t>(segment.count));
    swapping.segments.push_back(SegmentOf(model, run, segment));
  }
  return swapping;
}

SwapTime SwappedSeconds(const Swapping& swapping, double seconds, double forward_share,
                        double microbatches, const Machines& group) {
  const auto tasks = static_cast<double>(swapping.tasks);
  const auto played = [&](double of_pass, bool is_first) {
    Passes passes(swapping, seconds, forward_share, group);
    passes.Pass(of_pass, is_first);
    return passes.time();
  };
  const double whole = std::floor(microbatches / tasks);
  SwapTime all = played(std::min(tasks, microbatches), true);
  const auto add = [&](double times, const SwapTime& passes) {
    all.seconds += times * passes.seconds;
    all.tier_seconds += times * passes.tier_seconds;
  };
  if (whole > 1) add(whole - 1, played(tasks, false));
  if (whole > 0) add(1, played(microbatches - whole * tasks, false));
  return {all.seconds / microbatches, all.wait, all.tier_seconds / microbatches};
}

SwapTime SwappedUpdateSeconds(const Swapping& swapping, const Machines& group) {
  const UpdateParts parts = PartsOf(swapping, group);
  const auto& [shown, comes, computes, leaves] = parts;
  const auto trained = static_cast<double>(swapping.parameters.trained);
  // Beside the update of a segment are the others' ways: the first one's way there and the last
  // one's way back are beside none.
  double first = 0, last = 0;
  for (const SwapSegment& segment : swapping.segments) {
    const double share = static_cast<double>(segment.parameters.trained) / trained;
    if (share <= 0) continue;
    if (first <= 0) first = share * comes;
    last = share * leaves;
  }
  double updates = comes + leaves + computes;
  if (swapping.stores_beside) {
    updates = std::max(comes + leaves, first + computes + last);
  } else if (swapping.updates_beside) {
    updates = std::max(comes, first + computes) + leaves;
  }
  return {shown + updates, parts.by_host() ? SwapWait::kUpdate : SwapWait::kTier, parts.tier()};
}

SwapTime SwappedUpdateBeside(const Swapping& swapping, const SwapTime& passes,
                             const Machines& group) {
  const UpdateParts parts = PartsOf(swapping, group);
  const double computing = passes.seconds + (group.device_bytes > 0 ? 0 : parts.computes);
  const double moving = passes.tier_seconds + parts.tier();
  const double updating = parts.tier() + parts.computes;
  return {std::max({computing, moving, updating}) - passes.seconds,
          parts.by_host() ? SwapWait::kUpdate : SwapWait::kTier, parts.tier()};
}

double OffloadedUpdateSeconds(const Parameters& parameters, api::Precision precision,
                              const Machines& group) {
  const auto trained = static_cast<double>(parameters.trained);
  const double operand = precision == api::Precision::kFP32 ? kWeight : kWeight / 2;
  return trained *
         (kGradient / FromDevice(group) + 1 / UpdateRate(group) + operand / ToDevice(group));
}

SwappedLocal SwappedLocalSeconds(const Swapping& swapping, const Machines& group) {
  const auto trained = static_cast<double>(swapping.parameters.trained);
  const double tier = TierRate(swapping, group);
  const double numbers = trained * kWeight;  // of the mapped ones, each
  // What an inner step moved, the round's sum; local and outer weights, velocity.
  const bool is_cached = IsCached(swapping, 5 * numbers, group);
  const double state = trained * (kWeight + kMoments);
  // The inner state comes and leaves, and its weights are read. The gradients come for their norm
  // and for the update; what moved is written, and added to the sum; local weights change.
  const double inner = 2 * state + 3 * numbers + (is_cached ? 0 : 6 * numbers);
  // The inner weights are written. The sum is read three times, outer weights and velocity change
  // and are read for their digest, and local weights are written and read.
  const double round = numbers + (is_cached ? 0 : 11 * numbers);
  return {inner / tier, round / tier};
}

}  // namespace swarm::planner
