// What of a stage that is swapped each segment has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/model/layout/layout.h"
#include "worker/model/segments/plan.h"
#include "worker/model/stage.h"

namespace swarm::model {

struct Segment {
  /// Where a group of the segment lies in a group of the stage.
  struct Range {
    std::size_t group;
    std::uint64_t offset, count;
  };
  Slice slice;
  std::vector<ParameterSlot> slots, frozen;
  std::vector<Range> ranges;  ///< by group of the segment
  std::uint64_t frozen_count = 0;
  std::uint64_t parameters = 0;   ///< in memory what so many that are trained need
  std::vector<std::string> left;  ///< parameters that a later segment has, too, and writes
};

/// Cuts the stage of a layout for its memory (CutForUse).
Result<SwapPlan> Cut(const StageOptions& options, const Layout& layout);

/// Those of the plan, in order.
std::vector<Segment> MakeSegments(const StageOptions& options, const Layout& layout,
                                  const SwapPlan& plan);

}  // namespace swarm::model
