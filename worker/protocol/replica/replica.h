// What a stage worker decides: which frames it accepts, when it runs, folds, freezes, reduces and
// applies, what it retains, and what it answers to a trainer that repairs or takes over. The state
// machine of one replica (docs/protocol.md, rules 3, 5 to 17, 19).
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

#include "worker/protocol/messages/message.h"

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
/// Forget input, graph and fresh gradients of `key`; what is retained stays.
struct DropTask {
  TaskKey key;
};
/// Forget what is retained of `key`: its output, or its input gradient.
struct ReleaseRetained {
  TaskKey key;
  bool gradient = false;
};
/// Sum (step, group) with the other participants, after the folds already ordered; whatever earlier
/// attempt of it is going on is over. Report with OnGroupReduced.
struct StartReduce {
  Reduce reduce;
};
/// The reduces of the step are over, without a result.
struct StopReduces {
  Step step;
};
/// Get the reduced gradients of the record from those who hold them: this worker took no part.
/// Several may be under way. Report with OnGradientsFetched.
struct FetchGradients {
  CommitRecord record;
};
/// Apply the record with the reduced gradients of its step. Report with OnApplied.
struct ApplyCommit {
  CommitRecord record;
};
/// The step is over: free its accumulators and all that is retained of it.
struct ReleaseStep {
  Step step;
};
/// Nobody will ask for the reduced gradients of steps below this one any more.
struct ReleaseSums {
  Step below;
};
/// Empty the accumulator of the step; what is folded from now on is at this scale level.
struct ClearStep {
  Step step;
  std::uint64_t level = 0;
};
/// Copy the state as it is now and write it. Report with a CheckpointWritten message.
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
/// This worker's state is of no use any more: leave, and come back empty.
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

/// Rules that a test may switch off to see that it notices (docs/protocol.md, "Model check"). All
/// on outside of tests.
struct ReplicaRules {
  bool compare_claims = true;            ///< rule 8
  bool refuse_unlisted_attempts = true;  ///< rule 13
  bool keep_term_promise = true;         ///< rule 13
  bool compare_k = true;                 ///< rule 12
  bool propagate_does_not_fold = true;   ///< rule 5
  bool compare_generation = true;        ///< rule 5
  bool adopt_only_by_roster = true;      ///< rule 16
  bool answer_revoke_by_closing = true;  ///< rule 9
};

struct ReplicaOptions {
  Member self;
  std::uint64_t stages = 1;
  std::vector<GroupIndex> groups;       ///< that this stage's tensors belong to
  bool keeps_previous_version = false;  ///< Delayed mode
  Term term;                            ///< promised so far
  Generation generation;
  Attempt floor = {};               ///< attempts below are closed: they were for one before it
  Version version;                  ///< of the state it begins with
  std::uint64_t parked_max = 4096;  ///< frames that wait for a version, a thaw, or their forward
  std::uint64_t retained_bytes_max = 1ull << 30;  ///< outputs and input gradients kept for others
  ReplicaRules rules;
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

  Actions OnForward(const WorkerId& from, const Forward& frame);
  Actions OnBackward(const WorkerId& from, const Backward& frame);
  /// `loss` counts on the last stage only.
  /// The weights that the task reads are gone: a commit has overtaken it. It is closed, if it is
  /// not yet.
  Actions OnForwardGone(const TaskKey& key);
  Actions OnForwardDone(const TaskKey& key, double loss, const Cost& cost);
  /// `fits`: the gradients fit the scale level that the step has at this worker (always, with float
  /// accumulation).
  Actions OnBackwardDone(const TaskKey& key, const Cost& cost, bool fits = true);

  Actions OnResend(const Resend& resend);
  Actions OnRedirect(const Redirect& redirect);
  Actions OnRevoke(const Revoke& revoke);
  Actions OnVoid(const Void& message);
  Actions OnThaw(const Thaw& thaw);
  Actions OnRollback(const Rollback& rollback);
  Actions OnTakeover(const Takeover& takeover);

  Actions OnHandOver(const HandOver& message);
  /// All pieces of the donor's parcel are here.
  Actions OnParcel(const WorkerId& donor, Step step, Generation generation, std::uint64_t level,
                   std::vector<Contribution> contributions);

  Actions OnReduce(const Reduce& reduce);
  Actions OnGroupReduced(Step step, GroupIndex group, Attempt k, const Digest& digest,
                         std::vector<TensorNorm> norms);
  Actions OnCommit(const Commit& commit);
  Actions OnGradientsFetched(Step step);
  Actions OnApplied(Step step, const Digest& state);
  Actions OnWriteCheckpoint(const WriteCheckpoint& request);
  Actions OnPinState(const PinState& request);
  Actions OnUnpinState(const UnpinState& request);

  Version version() const { return version_; }
  Term term() const { return promised_; }
  Generation generation() const { return options_.generation; }
  /// Tasks whose forward or backward has been ordered and is not done.
  std::uint64_t queued() const { return queued_; }
  /// Frames that wait.
  std::uint64_t parked() const { return parked_ + early_backwards_.size(); }
  std::uint64_t retained_bytes() const { return retained_bytes_; }

  /// The microbatches whose gradients of the step this replica has folded.
  ClaimSet FoldSet(Step step) const;

 private:
  enum class TaskState { kParked, kForwarding, kForwarded, kBackwarding };
  struct Task {
    Forward frame;
    TaskState state = TaskState::kParked;
    double loss = 0;
    std::vector<Forward> onward;  // where the output goes instead of as `frame` says
    std::optional<std::pair<WorkerId, TaskKey>> back;  // where the input gradient goes
  };
  /// What is kept of a task that put something out, until its step is over.
  struct Retained {
    Forward frame;  // with tokens
    std::optional<std::uint64_t> output_bytes, gradient_bytes;
  };
  struct GroupState {
    std::optional<Reduce> reduce;  // frozen for it
    std::optional<Digest> digest;
  };
  struct StepState {
    std::map<Microbatch, Attempt> latest;  // highest folding attempt that was accepted or closed
    std::map<Microbatch, Contribution> folded;
    std::map<GroupIndex, GroupState> groups;
    std::map<WorkerId, std::vector<Contribution>> parcels;  // held, not adopted
    Attempt floor;                                          // folding attempts below are closed
    std::uint64_t level = 0;
    bool handed_over = false;
  };
  using Target = std::pair<WorkerId, TaskKey>;

  bool IsLastStage() const { return options_.self.stage.value + 1 == options_.stages; }
  bool IsCommitted(Step step) const { return step.value < version_.value; }
  /// The version that the step reads is here.
  bool CanRead(Step step) const {
    return step.value <= version_.value + (options_.keeps_previous_version ? 1 : 0);
  }
  bool Folds(const Forward& frame) const;
  bool Frozen(Step step) const;
  /// Promises the term, or returns false for one below the promise.
  bool Promise(Term term);
  /// Promises, and compares the generation. Not empty: why the message must be refused.
  std::string_view WhyRefuseControl(Term term, Generation generation);
  /// Why a frame must not be executed; empty if it may.
  std::string_view WhyRefuse(const WorkerId& from, const Forward& frame) const;
  bool MayFold(const Task& task) const;

  void Accept(Task& task);
  /// Starts a task that waits, if nothing keeps it any more.
  void StartIfReady(Task& task, Actions& actions);
  void StartParked(Actions& actions);
  void RunBackward(Task& task, Actions& actions);
  /// The task's attempt is over, without a fold.
  void Close(std::map<TaskKey, Task>::iterator task, Actions& actions);
  void CloseFolding(Step step, Actions& actions);
  void SendOutput(const TaskKey& source, const Forward& frame, Actions& actions) const;
  void SendGradient(const TaskKey& source, Version version, const Target& target,
                    Actions& actions) const;
  void Retain(const TaskKey& key, const Forward& frame, bool gradient, std::uint64_t bytes,
              Actions& actions);
  void ForgetRetained(Step step);
  void TryCommit(Actions& actions);
  void FetchWhatIsNotHeld(Actions& actions);
  bool Holds(const CommitRecord& record);
  HeldStep Describe(Step step, const StepState& state) const;

  const ReplicaOptions options_;
  Term promised_;
  Attempt floor_;  // attempts below are closed
  Version version_;
  Roster roster_;
  std::set<WorkerId> evicted_;

  std::map<TaskKey, Task> tasks_;  // open
  std::set<TaskKey> known_;        // training tasks that were accepted or closed, of open steps
  std::set<TaskKey> early_backwards_;
  std::map<TaskKey, std::vector<Forward>> early_resends_;
  std::map<TaskKey, Target> early_redirects_;
  std::map<TaskKey, Retained> retained_;
  std::deque<std::pair<TaskKey, bool>> retained_order_;  // (key, gradient), the oldest first
  std::uint64_t retained_bytes_ = 0;

  std::map<Step, StepState> steps_;
  std::map<std::pair<Step, GroupIndex>, Reduce> early_reduces_;  // of versions not reached yet
  std::deque<CommitRecord> commits_;  // decided, not yet applied; ordered by step
  std::map<Step, bool> fetches_;      // of queued commits; true: here
  std::optional<CommitRecord> last_applied_;
  std::deque<CommitRecord> past_;  // applied before that, kPastStepsMax at most
  bool applying_ = false;
  std::vector<WriteCheckpoint> checkpoints_;  // of versions not reached yet
  std::vector<PinState> pins_;
  std::uint64_t queued_ = 0;
  std::uint64_t parked_ = 0;
};

}  // namespace swarm::protocol
