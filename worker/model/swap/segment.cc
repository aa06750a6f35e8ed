#include "worker/model/swap/segment.h"

#include <algorithm>

#include "api/model/memory.h"

namespace swarm::model {
namespace {

/// What the slots of a layout are of: sizes of layers, by their names' numbers.
StageSizes SizesOf(const Layout& layout, bool tied) {
  StageSizes sizes;
  sizes.layers.resize(static_cast<std::size_t>(layout.slice.count));
  const auto add = [&](const ParameterSlot& slot, std::uint64_t count) {
    if (slot.name.starts_with(kLayersPrefix)) {
      const auto layer = std::stoll(slot.name.substr(kLayersPrefix.size()));
      sizes.layers[static_cast<std::size_t>(layer - layout.slice.first)] += count;
      return;
    }
    const bool embedding = slot.name == kEmbeddingName;
    if (layout.slice.embedding && embedding) sizes.embedding += count;
    if (layout.slice.head && (tied || !embedding)) sizes.head += count;
  };
  for (const ParameterSlot& slot : layout.slots) add(slot, slot.count);
  for (const ParameterSlot& slot : layout.frozen) add(slot, api::FrozenAsTrained(slot.count));
  return sizes;
}

/// `whole` is the layout of the stage.
Segment MakeSegment(const StageOptions& options, const Layout& whole, const Slice& slice) {
  const auto layout =
      ComputePartLayout(options.config, options.stage, options.stage_count, slice, options.lora);
  SWARM_CHECK(layout.ok(), layout.status().message());  // the stage's own layout was
  Segment segment{.slice = slice,
                  .slots = layout->slots,
                  .frozen = layout->frozen,
                  .ranges = {},
                  .frozen_count = layout->frozen_count,
                  .parameters = api::FrozenAsTrained(layout->frozen_count),
                  .left = {}};
  for (const ParameterGroup& group : layout->groups) {
    Segment::Range range{0, 0, group.count};
    while (whole.groups.at(range.group).index != group.index) ++range.group;
    segment.ranges.push_back(range);
    segment.parameters += group.count;
  }
  for (const ParameterSlot& slot : layout->slots) {
    const auto there = std::ranges::find(whole.slots, slot.name, &ParameterSlot::name);
    SWARM_CHECK(there != whole.slots.end(), slot.name + " is not in the stage");
    Segment::Range& range = segment.ranges[slot.group];
    if (slot.offset == 0) range.offset = there->offset;
    SWARM_CHECK(there->offset == range.offset + slot.offset, slot.name + " lies elsewhere");
  }
  return segment;
}

}  // namespace

Result<SwapPlan> Cut(const StageOptions& options, const Layout& layout) {
  const SwapLimits limits{
      .memory = options.swap.memory,
      .parameter_bytes = SegmentBytes(options.precision),
      .task_bytes = options.swap.task_bytes,
      .tasks = options.swap.tasks,
      .pass_bytes = PassBytes(options.accumulation, /*adapters=*/options.lora.rank > 0)};
  const SwapUse use{.on_device = options.device != "cpu" || options.streams != nullptr,
                    .exact = options.accumulation == api::Accumulation::kExact,
                    .overlaps = options.step_mode == api::StepMode::kDelayed};
  return CutForUse(layout.slice, SizesOf(layout, options.config.tie_word_embeddings), limits, use);
}

std::vector<Segment> MakeSegments(const StageOptions& options, const Layout& layout,
                                  const SwapPlan& plan) {
  std::vector<Segment> segments;
  for (const Slice& slice : plan.segments) segments.push_back(MakeSegment(options, layout, slice));
  for (auto segment = segments.begin(); segment != segments.end(); ++segment) {
    for (const ParameterSlot& slot : segment->slots) {
      const bool later = std::any_of(segment + 1, segments.end(), [&](const Segment& other) {
        return std::ranges::count(other.slots, slot.name, &ParameterSlot::name) > 0;
      });
      if (later) segment->left.push_back(slot.name);
    }
  }
  return segments;
}

}  // namespace swarm::model
