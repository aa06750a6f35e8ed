// How a stage that does not fit into its memory is cut into segments: runs of layers that are in
// memory together. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/model/layout/slice.h"

namespace swarm::model {

/// Parameters of the parts of a stage.
struct StageSizes {
  std::uint64_t embedding = 0;        ///< 0: not here
  std::vector<std::uint64_t> layers;  ///< one a layer
  std::uint64_t head = 0;             ///< 0: not here
};

struct SwapPlan {
  std::vector<Slice> segments;  ///< in order
  std::uint64_t largest = 0;    ///< parameters of a segment
  std::uint64_t tasks = 1;      ///< that pass a segment together
  bool inputs_in_tier = false;  ///< there the inputs of segments wait, which tasks keep
  bool leaves_beside = false;   ///< gradients of a segment leave a device while another computes
  bool updates_beside = false;  ///< a segment is updated while others compute
};

/// The most bytes that a parameter of a segment in memory needs: while it is updated, its weight,
/// its operand where that is not the weight itself, and its moments. A gradient needs less.
std::uint64_t SegmentBytes(api::Precision precision);

/// The bytes that a tier moves for what has the memory of a trained parameter when tasks pass once
/// more in a step: its weight twice; and its gradients as one sum, which is added to the step's.
/// Exact ones go one by one anyhow. With `adapters`, that is two weights which are frozen
/// (api::FrozenAsTrained), and the gradients are few.
std::uint64_t PassBytes(api::Accumulation accumulation, bool adapters);

/// How often the tier moves what a task carries from one segment to the next: the input is written,
/// and read forward and backward; so is the gradient, once each.
inline constexpr std::uint64_t kForwardMoves = 2, kBackwardMoves = 3;

/// What else segments are for.
struct SwapUse {
  bool on_device = false;  ///< they are computed elsewhere than they are updated
  bool exact = false;      ///< each task leaves its gradients
  bool overlaps = false;   ///< a step's tasks may pass while the one before is applied
};

/// What one may say of the memory.
struct SwapLimits {
  std::uint64_t memory = 0;           ///< bytes
  std::uint64_t parameter_bytes = 0;  ///< SegmentBytes
  std::uint64_t task_bytes = 0;       ///< of a task at the boundary of two segments
  std::uint64_t tasks = 1;            ///< wanted
  std::uint64_t pass_bytes = 0;       ///< PassBytes
};

/// The longest segments of which two fit into three quarters of the memory: one computes while the
/// next comes, or a segment and the bytes from which it is made. The rest is for the inputs of
/// segments, which tasks keep until their backward; they decide how many tasks pass together. Where
/// that is fewer than are wanted, and it costs less to move all inputs than to pass more often,
/// they wait in the tier. Embedding and head have many bytes, and little work or one of their own:
/// they are segments of their own. Errors: kResourceExhausted (too little memory for any cut, with
/// the least that would do).
Result<SwapPlan> CutIntoSegments(const Slice& stage, const StageSizes& sizes,
                                 const SwapLimits& limits);

/// The same with memory for more beside them, as far as there is any: on a device a third segment,
/// whose gradients leave; else where steps overlap with one that is updated, unless fewer tasks
/// would pass together then, or their inputs would be moved.
Result<SwapPlan> CutForUse(const Slice& stage, const StageSizes& sizes, const SwapLimits& limits,
                           const SwapUse& use);

}  // namespace swarm::model
