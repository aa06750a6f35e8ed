// A stage whose state is on the disk of its machine (Residency::kSwap): how it is cut, and how long
// its disk takes. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "api/swarmjob.h"
#include "planner/fleet.h"
#include "planner/model_costs.h"

namespace swarm::planner {

struct Swapping {
  Parameters parameters;       ///< of the stage
  std::uint64_t memory = 0;    ///< bytes that its segments need
  std::uint64_t tasks = 1;     ///< microbatches that pass a segment together
  bool exact = false;          ///< each of them leaves its gradients; if not, all leave one sum
  std::uint64_t layers = 0;    ///< of the longest segment
  double shared = 1;           ///< of the state, the part in pieces of several tensors that change
  std::uint64_t versions = 1;  ///< of the weights, in the state
  bool head = false;           ///< the stage has the head
  double inputs = 0;  ///< bytes of a microbatch's inputs of segments, if they go to the disk
};

/// As a worker cuts the stage (worker/model/segments/plan.h). None: a machine of the group computes
/// on a device, has no disk, or has too little memory.
std::optional<Swapping> SwapStage(const api::Spec& spec, const ModelCosts& model,
                                  const Machines& group, Run run);

/// Of a microbatch that computes for so many seconds, the part `forward_share` of them forward; a
/// replica takes `microbatches` in a step. While it computes, the next segment's weights come, the
/// last one's gradients leave, and inputs of segments do both where they wait on the disk. What is
/// not the first of a step comes back to be added to the step's sum, which comes and leaves, when
/// nothing computes.
double SwappedSeconds(const Swapping& swapping, double seconds, double forward_share,
                      double microbatches, double disk);

/// Of a step's end. What is trained and its moments come and leave, and what shares a piece with
/// another tensor comes once more for its digest, of all versions. The sum of gradients comes
/// twice: for its digests and norms, and for the update.
double SwappedUpdateSeconds(const Swapping& swapping, double disk);

/// Where replicas take steps of their own (StepMode::kLocal): of such a step, and of a round's end.
/// What they moved, the sum of that, the local and the outer weights and the velocity are mapped:
/// they come from the disk where the group's machines have no memory for them beside the segments.
struct SwappedLocal {
  double inner_seconds = 0;
  double round_seconds = 0;
};
SwappedLocal SwappedLocalSeconds(const Swapping& swapping, const Machines& group);

}  // namespace swarm::planner
