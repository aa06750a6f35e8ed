#include "worker/model/segments/plan.h"

#include <algorithm>
#include <string>

#include "api/model/memory.h"

namespace swarm::model {

std::uint64_t SegmentBytes(api::Precision precision) {
  return 4 + (precision == api::Precision::kFP32 ? 0 : 2) + 2 * 4;
}

std::uint64_t PassBytes(api::Accumulation accumulation, bool adapters) {
  const std::uint64_t weights = 2 * 4, sum = 4 + 4 + 2 * 4;
  if (adapters) return 2 * weights;
  return accumulation == api::Accumulation::kExact ? weights : weights + sum;
}

namespace {

/// Of a parameter that is updated, beside SegmentBytes: its gradient.
constexpr std::uint64_t kUpdatedSum = 4;

/// What tasks carry that is in memory at once, where it waits in the tier: what a segment computes
/// from, its result, two that leave, and those of the next task.
constexpr std::uint64_t kCarried = 8;

/// Decides how many tasks pass together, and where their inputs wait.
void ChooseTasks(std::uint64_t parameters, const SwapLimits& limits, SwapPlan* plan) {
  const std::uint64_t each = std::max<std::uint64_t>(limits.task_bytes, 1);
  const std::uint64_t wanted = std::max<std::uint64_t>(limits.tasks, 1);
  const std::uint64_t room = limits.memory / 4;
  const std::uint64_t segments = plan->segments.size();
  plan->tasks = std::clamp<std::uint64_t>(room / (segments * each), 1, wanted);
  const std::uint64_t more_passes = (wanted - 1) / plan->tasks;
  const std::uint64_t moved = wanted * (segments - 1) * each * (kForwardMoves + kBackwardMoves);
  if (kCarried * each > room || moved >= more_passes * parameters * limits.pass_bytes) return;
  plan->tasks = wanted;
  plan->inputs_in_tier = true;
}

}  // namespace

Result<SwapPlan> CutIntoSegments(const Slice& stage, const StageSizes& sizes,
                                 const SwapLimits& limits) {
  const std::uint64_t room = limits.memory / 4 * 3 / limits.parameter_bytes / 2;  // parameters
  std::uint64_t least = std::max(sizes.embedding, sizes.head);
  for (const std::uint64_t layer : sizes.layers) least = std::max(least, layer);
  const std::uint64_t needed = api::LeastSwapMemory(least, limits.parameter_bytes);
  if (limits.memory < needed) {
    return ResourceExhausted("the stage has " + std::to_string(limits.memory >> 20) +
                             " MiB (pipeline.memory.host) and needs " +
                             std::to_string((needed >> 20) + 1) +
                             " MiB: its largest layer, embedding or head must fit twice");
  }
  SwapPlan plan;
  std::uint64_t all = 0;
  const auto add = [&](const Slice& slice, std::uint64_t parameters) {
    plan.segments.push_back(slice);
    all += parameters;
    plan.largest = std::max(plan.largest, parameters);
  };
  if (stage.embedding) add({stage.first, 0, true, false}, sizes.embedding);
  for (std::size_t i = 0; i < sizes.layers.size();) {
    Slice slice{stage.first + static_cast<std::int64_t>(i), 0, false, false};
    std::uint64_t parameters = 0;
    while (i < sizes.layers.size() && (slice.count == 0 || parameters + sizes.layers[i] <= room)) {
      parameters += sizes.layers[i++];
      ++slice.count;
    }
    add(slice, parameters);
  }
  if (stage.head) add({stage.first + stage.count, 0, false, true}, sizes.head);
  ChooseTasks(all, limits, &plan);
  return plan;
}

Result<SwapPlan> CutForUse(const Slice& stage, const StageSizes& sizes, const SwapLimits& limits,
                           const SwapUse& use) {
  const bool overlaps = use.overlaps && !use.exact;
  auto plan = CutIntoSegments(stage, sizes, limits);
  SwapLimits more = limits;
  if (use.on_device) {
    more.parameter_bytes = limits.parameter_bytes * 3 / 2;
    if (auto shorter = CutIntoSegments(stage, sizes, more); shorter.ok()) plan = shorter;
    if (!plan.ok()) return plan;
    const std::uint64_t three = 3 * plan->largest * limits.parameter_bytes;
    plan->leaves_beside = !use.exact && three <= limits.memory / 4 * 3;
    plan->updates_beside = overlaps;  // in the memory of the host
    return plan;
  }
  if (!overlaps || !plan.ok()) return plan;
  more.parameter_bytes = (3 * limits.parameter_bytes + kUpdatedSum + 1) / 2;
  auto shorter = CutIntoSegments(stage, sizes, more);
  if (!shorter.ok() || shorter->tasks < plan->tasks || shorter->inputs_in_tier) return plan;
  shorter->updates_beside = true;
  return shorter;
}

}  // namespace swarm::model
