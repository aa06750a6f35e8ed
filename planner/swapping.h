// A stage that is swapped (Residency::kSwap), on the disk of its machine, or beside a device in the
// memory of the host: how it is cut, and how long its parts take. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/swarmjob.h"
#include "planner/fleet.h"
#include "planner/model_costs.h"

namespace swarm::planner {

/// Of a segment: its parameters, and its part of the stage's work.
struct SwapSegment {
  Parameters parameters;
  double work = 0;  ///< 1: all
};

struct Swapping {
  Parameters parameters;       ///< of the stage
  std::uint64_t memory = 0;    ///< bytes that its segments need, where they are computed
  std::uint64_t tasks = 1;     ///< microbatches that pass a segment together
  bool exact = false;          ///< each of them leaves its gradients; if not, all leave one sum
  std::uint64_t layers = 0;    ///< of the longest segment
  double shared = 1;           ///< of the state, the part in pieces of several tensors that change
  std::uint64_t versions = 1;  ///< of the weights, in the state
  bool embedding = false;      ///< the stage has the embedding
  bool head = false;           ///< it has the head
  double inputs = 0;  ///< bytes of a microbatch's inputs of segments, if they go to the disk

  std::vector<SwapSegment> segments;  ///< in order
  bool in_memory = false;             ///< the state is in the memory of the host
  double boundary = 0;                ///< bytes of a microbatch from a segment to the next
  double operand = 4;                 ///< bytes of a weight that crosses to a device
  /// While one segment computes, the gradients of the last one leave.
  bool leaves_beside = false;
  /// While one segment is updated, the next comes, and the last one leaves.
  bool updates_beside = false, stores_beside = false;
  /// While segments are updated, those of the next step's tasks compute.
  bool passes_beside = false;
};

/// As a worker cuts the stage (worker/model/segments/plan.h). None: a machine of the group has too
/// little memory, or no disk where the state is to be there.
std::optional<Swapping> SwapStage(const api::Spec& spec, const ModelCosts& model,
                                  const Machines& group, Run run);

/// What a part of a swapped stage's step waits for.
enum class SwapWait {
  kCompute,  ///< the device
  kTier,     ///< the disk; or copies within the memory of the host
  kLink,     ///< what crosses between host and device
  kUpdate,   ///< what the host computes of an update
};

struct SwapTime {
  double seconds = 0;
  SwapWait wait = SwapWait::kCompute;  ///< for most of what is not the device's
  double tier_seconds = 0;             ///< of them, or beside them, the tier moves bytes
};

/// Of a microbatch that computes for so many seconds, the part `forward_share` of them forward; a
/// replica takes `microbatches` in a step. While a segment computes, the next one's weights come,
/// the last one's gradients leave, and inputs of segments do both where they wait on the disk. So
/// what has bytes and little work, as an embedding, is waited for. What is not the first of a step
/// comes back to be added to the step's sum, which comes and leaves, when nothing computes.
SwapTime SwappedSeconds(const Swapping& swapping, double seconds, double forward_share,
                        double microbatches, const Machines& group);

/// Of a step's end. What is trained and its moments come and leave, and what shares a piece with
/// another tensor comes once more for its digest, of all versions. The sum of gradients comes
/// twice: for its digests and norms, and for the update. The host's computing is beside that, as
/// far as memory has room for it, where its rate is known or the machine has a device.
SwapTime SwappedUpdateSeconds(const Swapping& swapping, const Machines& group);

/// By how much such an update makes a step longer, whose passes take so long, where the two are
/// beside each other (Swapping::passes_beside): they share the tier, and without a device also what
/// computes. One segment is updated after the other.
SwapTime SwappedUpdateBeside(const Swapping& swapping, const SwapTime& passes,
                             const Machines& group);

/// Where replicas take steps of their own (StepMode::kLocal): of such a step, and of a round's end.
/// What they moved, the sum of that, the local and the outer weights and the velocity are mapped:
/// they come from the disk where the group's machines have no memory for them beside the segments.
struct SwappedLocal {
  double inner_seconds = 0;
  double round_seconds = 0;
};
SwappedLocal SwappedLocalSeconds(const Swapping& swapping, const Machines& group);

/// With Residency::kOffload: gradients leave the device, the host updates, operands cross.
double OffloadedUpdateSeconds(const Parameters& parameters, api::Precision precision,
                              const Machines& group);

}  // namespace swarm::planner
