// The replica's actions for its shell. The shell carries them out in the order in which they come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "worker/protocol/messages/message.h"

namespace swarm::protocol {

namespace action {

/// Execute the forward of `key` with the input that came with it. Report with OnForwardDone.
struct RunForward {
  TaskKey key;
  Version version;
  bool keep_graph = true;
};
/// Execute the backward of `key` with the gradient that came with it (none on the last stage).
/// Report with OnBackwardDone.
struct RunBackward {
  TaskKey key;
};
/// Send the output of `source`, which is retained under that key, as `message`.
struct SendForward {
  WorkerId to;
  Forward message;
  TaskKey source;
};
/// Send the input gradient of `source`, which is retained under that key, as `message`.
struct SendBackward {
  WorkerId to;
  Backward message;
  TaskKey source;
};
/// Add the waiting gradients of `key` to its step's accumulator.
struct FoldGradients {
  TaskKey key;
};
/// Forget input, graph and fresh gradients of `key`; retained outputs stay.
struct DropTask {
  TaskKey key;
};
/// Forget the retained output of `key`, or its retained input gradient.
struct ReleaseRetained {
  TaskKey key;
  bool gradient = false;
};
/// Sum (step, group) with the other participants, after the folds already ordered; an earlier
/// attempt of it that is still running is over. Where the reduce has holders, get the moments of
/// the own parts that are not here from the other holder. Report with OnGroupReduced.
struct StartReduce {
  Reduce reduce;
};
/// The reduces of the step are over, without a result.
struct StopReduces {
  Step step;
};
/// Get the reduced gradients of the record from replicas that hold them: this worker took no part.
/// Groups that have holders need none. Several may be under way. Report with OnGradientsFetched.
struct FetchGradients {
  CommitRecord record;
};
/// Apply the record with the reduced gradients of its step. Where a group has holders, update the
/// own parts, keep their weights as other reduced gradients, and get the weights of the others from
/// their holders; moments of parts that are not its own any more go. Report with OnApplied; and
/// with OnStateRead the digest of the state that it makes, which nothing but the next one waits
/// for.
struct ApplyCommit {
  CommitRecord record;
  /// It took part in the sums that have holders. Else no part is its own, though an earlier process
  /// of its name may have been a holder.
  bool holds = true;
};
/// The step is over: free its accumulators and all retained outputs and input gradients.
struct ReleaseStep {
  Step step;
};
/// Reduced gradients of steps below this one will not be asked for any more.
struct ReleaseSums {
  Step below;
};
/// Empty the accumulator of the step; later folds are at this scale level.
struct ClearStep {
  Step step;
  std::uint64_t level = 0;
};
/// Copy the state as it is now and write what is asked for. Report with a CheckpointWritten
/// message.
struct TakeCheckpoint {
  WriteCheckpoint request;
};
/// Copy the state as it is now and keep it for joiners. Report with a StatePinned message.
struct PinCopy {
  PinState request;
};
struct UnpinCopy {
  Version version;
};
/// Send the accumulators of the step to the heir, all groups.
struct SendParcel {
  WorkerId to;
  Step step;
  std::uint64_t level = 0;
  std::vector<Contribution> contributions;
};
/// Add the donor's parcel, which is here, to the accumulators of the step.
struct AdoptParcel {
  WorkerId donor;
  Step step;
};
/// Forget the donor's parcel.
struct DropParcel {
  WorkerId donor;
  Step step;
};
/// Stop everything, forget the state, and load the one that is named; a new Replica goes on.
struct BeginAnew {
  Rollback request;
};
/// Send to the trainer.
struct Tell {
  Message message;
};
/// The frame was refused; it is harmless. Count it by its reason.
struct Refuse {
  std::string_view reason;
  TaskKey key;
};
/// The state of this worker is of no more use: leave, and come back empty.
struct Rejoin {
  std::string reason;
};

}  // namespace action

using Action =
    std::variant<action::RunForward, action::RunBackward, action::SendForward, action::SendBackward,
                 action::FoldGradients, action::DropTask, action::ReleaseRetained,
                 action::StartReduce, action::StopReduces, action::FetchGradients,
                 action::ApplyCommit, action::ReleaseStep, action::ReleaseSums, action::ClearStep,
                 action::TakeCheckpoint, action::PinCopy, action::UnpinCopy, action::SendParcel,
                 action::AdoptParcel, action::DropParcel, action::BeginAnew, action::Tell,
                 action::Refuse, action::Rejoin>;
using Actions = std::vector<Action>;

/// The frame was refused, for this reason.
inline Actions Refused(std::string_view reason, const TaskKey& key) {
  return {action::Refuse{reason, key}};
}

inline void Append(Actions& to, Actions from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace swarm::protocol
