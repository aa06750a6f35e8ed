// Data messages: they go from worker to worker (the first forward of a microbatch from the
// trainer), most carry a payload, and their key fences them. proto/swarmjob/v1/data.proto has the
// same on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

// ---- execution ----

/// One step of a microbatch's route: the worker that executes a stage, the attempt, and whether the
/// backward there folds its gradients (recomputing is not contributing: rule 5).
struct Hop {
  WorkerId worker;
  Attempt attempt;
  bool fold = true;
  bool operator==(const Hop&) const = default;
};

enum class TaskKind : std::uint8_t {
  kTrain = 0,     ///< forward, backward, fold
  kEvaluate = 1,  ///< forward without a graph; the last stage reports the loss
};

/// previous stage (or trainer) → worker: execute the forward of hops[key.stage].
/// Payload: the boundary's encoding of x_s (nothing for stage 0). The token ids travel in the
/// message itself: they are part of x_s (labels, replays), and small.
///
/// A pass covers the stages from key.stage to `end`, which for a fresh microbatch are all. A
/// repair's pass is shorter, and the stages around it have done their work already. Its first
/// stages may only recompute (no graph is kept below `first`); its last stage gets its gradient by
/// a Redirect.
struct Forward {
  TaskKey key;
  Version version;  ///< of the weights to use
  TaskKind kind = TaskKind::kTrain;
  std::vector<Hop> hops;  ///< one a stage; hop of key.stage names this task
  StageIndex end;         ///< exclusive: the output is not sent to this stage or later ones
  StageIndex first;       ///< the lowest stage of this pass that does a backward
  Hop upstream;  ///< gets the input gradient of stage `first`; empty worker: it is not sent
  Bytes tokens;  ///< sequences * tokens_per_sequence ids, little-endian int32
  std::uint32_t sequences = 0;            ///< B of the microbatch
  std::uint32_t tokens_per_sequence = 0;  ///< L + 1: inputs and, shifted by one, labels
};

/// next stage → worker: the gradient of the loss by the output of `key` (stage and attempt are the
/// receiver's). Payload: the boundary's encoding of g_{s+1}.
struct Backward {
  TaskKey key;
  Version version;
};

// ---- reduce ----

/// worker → worker: a chunk of a sum. Payload: float32, or int64 with exact accumulation; little
/// endian.
struct ReduceChunk {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  enum class Phase : std::uint8_t {
    kScatter = 0,  ///< a contribution, or a row's partial sum, on its way to who adds it
    kGather = 1,   ///< the sum, on its way back
  } phase{};
  std::uint64_t offset = 0;  ///< first element, in the group's flat order
};

// ---- leaving and joining ----

/// A contribution in a sum.
struct Contribution {
  Microbatch microbatch;
  Attempt attempt;
  double loss = 0;  ///< last stage only
  bool operator==(const Contribution&) const = default;
};

/// leaving worker → heir: a piece of the sums of one group. Payload: accumulator elements, little
/// endian. It counts once a roster says so, not before.
struct Parcel {
  Generation generation;
  Step step;
  StageIndex stage;
  GroupIndex group;
  std::uint64_t offset = 0;  ///< first byte
  std::uint64_t count = 0;   ///< bytes of the group's sums
  std::uint64_t level = 0;   ///< of the step's scale
  bool finite = true;        ///< all contributions were (exact accumulation)
  std::vector<Contribution> contributions;
};

/// What can be fetched from another replica in pieces.
enum class FetchKind : std::uint8_t {
  kStateIndex = 0,     ///< the list of the pinned state's pieces, each with its digest
  kState = 1,          ///< a piece of the pinned state
  kGradient = 2,       ///< a piece of the reduced gradient of a step that is decided
  kGradientIndex = 3,  ///< the list of that gradient's pieces, each with its digest
  kMoments = 4,        ///< a piece of a part's moments, as they are at a version
  kWeights = 5,        ///< a piece of a part's weights, as a step has made them
};

/// joining worker, or one that holds not all parts → replica.
struct Fetch {
  Generation generation;
  FetchKind kind{};
  Version version;   ///< of the pinned state, of moments; of a gradient, of weights: the step
  GroupIndex group;  ///< of all but the pinned state
  Attempt k;         ///< of a gradient
  std::uint64_t piece = 0;
  std::uint64_t part = 0;  ///< of moments and weights
};

/// replica → joining worker. Payload: the piece.
struct Fetched {
  Generation generation;
  FetchKind kind{};
  Version version;
  GroupIndex group;
  Attempt k;
  std::uint64_t piece = 0;
  std::uint64_t pieces = 0;  ///< how many there are of that state or gradient
  std::string error;         ///< not empty: it is not here (any more)
  std::uint64_t part = 0;
};

/// worker → third worker → worker: a message on a detour (rule 28). Payload: that of the message.
struct Relayed {
  WorkerId from;
  WorkerId to;
  std::string header;  ///< the message, as it would be on the wire
};

}  // namespace swarm::protocol
