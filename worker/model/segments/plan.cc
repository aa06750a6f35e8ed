#include "worker/model/segments/plan.h"

#include <algorithm>
#include <string>

#include "api/model/memory.h"

namespace swarm::model {

std::uint64_t SegmentBytes(api::Precision precision) {
  return 4 + (precision == api::Precision::kFP32 ? 0 : 2) + 2 * 4;
}

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
  const auto add = [&](const Slice& slice, std::uint64_t parameters) {
    plan.segments.push_back(slice);
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
  const std::uint64_t kept = plan.segments.size() * std::max<std::uint64_t>(limits.task_bytes, 1);
  plan.tasks = std::clamp<std::uint64_t>(limits.memory / 4 / kept, 1,
                                         std::max<std::uint64_t>(limits.tasks, 1));
  return plan;
}

}  // namespace swarm::model
