// What the trainer decides: who serves which stage, when microbatches are issued, when a group is
// reduced, what is committed, when state is checkpointed, and when the job is over. One coordinator
// a job (docs/protocol.md, rules 4, 8, 11, 12, 24, 27).
//
// Pure: events and the time in, orders out, in the order they must be carried out. The shell
// (worker/trainer) sends messages, reads data and writes files. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "worker/protocol/commit.h"
#include "worker/protocol/ledger.h"
#include "worker/protocol/router.h"

namespace swarm::protocol {

/// What the shell has to do.
namespace order {

/// Send a control message.
struct Tell {
  WorkerId to;
  Message message;
};
/// Read the microbatch's tokens and send them with `frame` to its first worker. The data are those
/// of (frame.key.step, microbatch) for training, of validation window `microbatch` for kEvaluate.
struct Issue {
  Forward frame;
};
/// Step `record.step` is decided; `seconds` since the step before was.
struct StepDone {
  CommitRecord record;
  double seconds = 0;
  std::uint64_t boundary_bytes = 0;  ///< activations and gradients sent between stages
};
/// The mean validation loss of a version, over all validation microbatches.
struct Validated {
  Version version;
  double loss = 0;
};
/// All stages have written: make the checkpoint visible.
struct PublishCheckpoint {
  Version version;
  std::vector<CheckpointFile> files;
};
/// Something worth a line in events.jsonl.
struct Event {
  std::string kind;  ///< CamelCase, stable
  std::string text;
};
/// Nothing more will happen.
struct Finish {
  bool succeeded = false;
  bool stopped_early = false;  ///< asked to stop before the last step
  std::string reason;          ///< of a failure
};

}  // namespace order

using Order = std::variant<order::Tell, order::Issue, order::StepDone, order::Validated,
                           order::PublishCheckpoint, order::Event, order::Finish>;
using Orders = std::vector<Order>;

/// The tensors that one reduce sums, and the stages whose replicas take part.
struct ReduceGroup {
  GroupIndex index;
  std::vector<StageIndex> stages;
};

/// One group a stage; with `tied_head` one more, of the first and the last stage.
std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head);

struct CoordinatorOptions {
  Term term{1};
  Generation generation;
  std::vector<std::uint64_t> replicas;  ///< wanted, per stage
  std::uint64_t microbatches = 1;       ///< M
  std::uint64_t max_steps = 1;
  bool delayed = false;
  bool tied_head = false;
  double max_grad_norm = 0;
  std::uint64_t seed = 0;
  std::function<double(Step)> learning_rate;
  std::string job_json;    ///< for Welcome
  Version first_version;   ///< of the state the job begins with
  std::string resume_uri;  ///< of that state's checkpoint; empty: initial weights
  std::uint64_t checkpoint_interval_steps = 0;  ///< 0: only at the end
  std::string checkpoint_uri;                   ///< parent folder; empty: none at all
  std::uint64_t validation_interval_steps = 0;  ///< 0: never
  std::uint64_t validation_microbatches = 0;
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);

  Orders OnHello(const Hello& hello, Timepoint now);
  Orders OnReady(const WorkerId& from, const Ready& ready, Timepoint now);
  Orders OnProgress(const WorkerId& from, const Progress& progress, Timepoint now);
  Orders OnReduceRefused(const WorkerId& from, const ReduceRefused& refused, Timepoint now);
  Orders OnReduced(const WorkerId& from, const Reduced& reduced, Timepoint now);
  Orders OnCommitted(const WorkerId& from, const Committed& committed, Timepoint now);
  Orders OnCheckpointWritten(const WorkerId& from, const CheckpointWritten& written, Timepoint now);
  /// The shell has made the checkpoint visible, or could not (`error`).
  Orders OnCheckpointPublished(Version version, const std::string& error, Timepoint now);
  Orders OnFailure(const WorkerId& from, const Failure& failure);
  Orders OnWorkerLost(const WorkerId& worker, const std::string& why);
  /// Finish the steps that have begun, write a checkpoint, end. Idempotent.
  Orders OnStopRequested(Timepoint now);

  /// The job as a user wants to see it (without what heartbeats tell).
  JobStatus Status(Timepoint now) const;
  bool finished() const { return phase_ == Phase::kFinished; }

 private:
  enum class Phase { kWaiting, kTraining, kFinishing, kFinished };
  struct Worker {
    Member member;
    bool ready = false;
    Digest ready_state;
  };
  struct GroupState {
    std::optional<Attempt> k;             // asked for
    std::map<WorkerId, Reduced> reports;  // of k
    std::vector<WorkerId> participants;
  };
  struct StepState {
    explicit StepState(std::uint64_t microbatches, std::uint64_t stages)
        : ledger(microbatches, stages), losses(microbatches, 0.0) {}
    Ledger ledger;
    std::uint64_t issued = 0;
    std::vector<double> losses;
    std::uint64_t boundary_bytes = 0;
    std::map<GroupIndex, GroupState> groups;
  };
  struct Evaluation {
    Version version;
    std::uint64_t issued = 0;
    std::map<Microbatch, double> losses;
    std::map<TaskKey, std::vector<WorkerId>> routes;  // to release
  };
  struct PendingCheckpoint {
    Version version;
    std::map<StageIndex, std::vector<CheckpointFile>> files;
    bool publishing = false;
  };

  std::uint64_t stages() const { return options_.replicas.size(); }
  std::vector<WorkerId> Replicas(StageIndex stage) const;
  std::optional<StageIndex> ChooseStage() const;
  void Broadcast(const Message& message, Orders& orders) const;
  void Fail(std::string reason, Orders& orders);
  void Start(Timepoint now, Orders& orders);
  /// Whatever has become possible: issue, reduce, commit, finish.
  void Advance(Timepoint now, Orders& orders);
  void CountBoundary(const TaskReport& report);
  void IssueAll(Orders& orders);
  bool IssueOne(Orders& orders);
  void ReduceWhatIsComplete(Step step, StepState& state, Orders& orders);
  bool CommitIfReduced(Timepoint now, Orders& orders);
  void AfterCommit(Orders& orders);
  void RequestCheckpoint(Version version, Orders& orders);
  void FinishIfDone(Orders& orders);
  Attempt NextAttempt() { return Attempt{options_.term, ++attempts_}; }

  const CoordinatorOptions options_;
  const std::vector<ReduceGroup> groups_;
  Router router_;
  Phase phase_ = Phase::kWaiting;
  std::map<WorkerId, Worker> workers_;
  Epoch epoch_;
  std::uint64_t attempts_ = 0;
  Version version_;                  // commits decided
  std::map<Step, StepState> steps_;  // begun, not committed
  std::uint64_t last_step_;          // exclusive: where the job ends
  bool stopping_ = false;
  std::optional<Evaluation> evaluation_;
  std::optional<PendingCheckpoint> checkpoint_;
  bool final_checkpoint_wanted_ = false;
  int final_checkpoint_tries_ = 0;
  std::map<std::pair<Version, StageIndex>, Digest> states_;  // as first reported
  Timepoint last_commit_;
  double seconds_per_step_ = 0;
  CommitRecord last_record_;
  double validation_loss_ = 0;
  std::string failure_;
};

}  // namespace swarm::protocol
