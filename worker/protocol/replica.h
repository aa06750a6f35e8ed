// What a stage worker decides: which frames it accepts, when it runs, folds, freezes, reduces and
// applies. The state machine of one replica (docs/protocol.md, rules 3, 5 to 8, 11, 12).
//
// Pure: events in, actions out. The shell (worker/stage) executes the actions in the order given,
// holds the payloads under their TaskKey, and reports back what finished. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "worker/protocol/messages.h"

namespace swarm::protocol {

/// What the shell has to do.
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
/// Send the output of `message.key`'s predecessor task on; payload: token ids and boundary.
struct SendForward {
  WorkerId to;
  Forward message;
};
/// Send the input gradient of this worker's task back; `done` is that task.
struct SendBackward {
  WorkerId to;
  Backward message;
  TaskKey done;
};
/// Add the waiting gradients of `key` to its step's accumulator.
struct FoldGradients {
  TaskKey key;
};
/// Forget payload, graph and gradients of `key`.
struct DropTask {
  TaskKey key;
};
/// No more folds into (step, group) after those already ordered: sum it with the other
/// participants. Report with OnGroupReduced.
struct StartReduce {
  Reduce reduce;
};
/// Apply the record with the reduced gradients of its step. Report with OnApplied.
struct ApplyCommit {
  CommitRecord record;
};
/// The step is over: free its accumulators and reduced buffers.
struct ReleaseStep {
  Step step;
};
/// Copy the state as it is now and write it. Report with a CheckpointWritten message.
struct TakeCheckpoint {
  WriteCheckpoint request;
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
/// The job cannot go on with this worker's state.
struct Fail {
  std::string reason;
};

}  // namespace action

using Action = std::variant<action::RunForward, action::RunBackward, action::SendForward,
                            action::SendBackward, action::FoldGradients, action::DropTask,
                            action::StartReduce, action::ApplyCommit, action::ReleaseStep,
                            action::TakeCheckpoint, action::Tell, action::Refuse, action::Fail>;
using Actions = std::vector<Action>;

struct ReplicaOptions {
  WorkerId self;
  StageIndex stage;
  std::uint64_t stages = 1;
  std::vector<GroupIndex> groups;       ///< that this stage's tensors belong to
  bool keeps_previous_version = false;  ///< Delayed mode
  Generation generation;
  Version version;                  ///< of the state it begins with
  std::uint64_t parked_max = 4096;  ///< frames whose version is not here yet
};

/// What one part of a task took.
struct Cost {
  double seconds = 0;                ///< of compute
  std::uint64_t boundary_bytes = 0;  ///< of its output
};

class Replica {
 public:
  explicit Replica(ReplicaOptions options);

  Actions OnRoster(const Roster& roster);

  Actions OnForward(const Forward& frame);
  Actions OnBackward(const WorkerId& from, const Backward& frame);
  /// `loss` counts on the last stage only.
  Actions OnForwardDone(const TaskKey& key, double loss, const Cost& cost);
  Actions OnBackwardDone(const TaskKey& key, const Cost& cost);

  Actions OnReduce(const Reduce& reduce);
  Actions OnGroupReduced(Step step, GroupIndex group, Attempt k, const Digest& digest,
                         std::vector<TensorNorm> norms);
  Actions OnCommit(const Commit& commit);
  Actions OnApplied(Step step, const Digest& state);
  Actions OnWriteCheckpoint(const WriteCheckpoint& request);

  Version version() const { return version_; }
  /// Tasks whose forward or backward has been ordered and is not done.
  std::uint64_t queued() const { return queued_; }
  /// Forwards that wait for their version.
  std::uint64_t parked() const { return parked_; }

  /// The microbatches whose gradients of the step this replica has folded.
  ClaimSet FoldSet(Step step) const;

 private:
  enum class TaskState { kParked, kForwarding, kForwarded, kBackwarding };
  struct Task {
    Forward frame;
    TaskState state = TaskState::kParked;
    double loss = 0;
  };
  struct GroupState {
    std::optional<Attempt> k;  // frozen for this reduce
    std::optional<Digest> digest;
  };
  struct StepState {
    std::map<Microbatch, Attempt> folded;
    std::map<GroupIndex, GroupState> groups;
  };

  bool IsLastStage() const { return options_.stage.value + 1 == options_.stages; }
  bool IsCommitted(Step step) const { return step.value < version_.value; }
  /// Why a frame must not be executed; empty if it may.
  std::string_view WhyRefuse(const Forward& frame) const;
  bool Frozen(const StepState& step) const;
  Actions StartForward(Task& task);
  Actions TryCommit();

  const ReplicaOptions options_;
  Term promised_;
  Version version_;
  Epoch epoch_;
  std::set<WorkerId> members_;
  std::map<TaskKey, Task> tasks_;
  std::map<Step, StepState> steps_;
  std::deque<Commit> commits_;  // decided, not yet applied; ordered by step
  bool applying_ = false;
  std::vector<WriteCheckpoint> checkpoints_;  // of versions not reached yet
  std::uint64_t queued_ = 0;
  std::uint64_t parked_ = 0;
};

}  // namespace swarm::protocol
