// What the trainer decides: who serves which stage, when microbatches are issued, when a group is
// reduced, what is committed, when state is checkpointed, and when the job is over. One coordinator
// a job (docs/protocol.md, rules 4, 8, 11, 12, 24, 27).
//
// Pure: events and the time in, orders out, in the order they must be carried out. The shell
// (worker/trainer) sends messages, reads data and writes files. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "worker/protocol/balance/balance.h"
#include "worker/protocol/commit.h"
#include "worker/protocol/recovery.h"
#include "worker/protocol/routing/router.h"

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
/// Step `record.step` is decided; `seconds` since the step before was. After a takeover also steps
/// that the trainer before has decided (`seconds` 0): of what its workers remember, in order.
struct StepDone {
  CommitRecord record;
  double seconds = 0;
  std::uint64_t boundary_bytes = 0;  ///< activations and gradients sent between stages
  /// Who contributed what to the sums that the record names, for each of its groups. Empty where
  /// the trainer before has decided the step: its workers remember the record, not the claims.
  std::vector<std::vector<Participant>> claims = {};
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
/// Durably begin this generation, if nobody has, with the newest checkpoint (or the initial
/// weights), and cut the run's log to it. Answered with OnGenerationBegun.
struct BeginGeneration {
  Generation generation;
};
/// The process of this worker is of no use any more: forget what waits to be sent to it. The
/// connection stays, for the word that tells it so.
struct Forget {
  WorkerId worker;
};
/// Nothing more will happen.
struct Finish {
  bool succeeded = false;
  bool stopped_early = false;  ///< asked to stop before the last step
  bool superseded = false;     ///< there is a trainer of a higher term: leave everything as it is
  std::string reason = {};     ///< of a failure
  std::string failure_class = {};  ///< of a failure: a word of FailureClass
};

}  // namespace order

using Order = std::variant<order::Tell, order::Issue, order::StepDone, order::Validated,
                           order::PublishCheckpoint, order::Event, order::BeginGeneration,
                           order::Forget, order::Finish>;
using Orders = std::vector<Order>;

/// The tensors that one reduce sums, and the stages whose replicas take part.
struct ReduceGroup {
  GroupIndex index;
  std::vector<StageIndex> stages;
};

/// One group a stage; with `tied_head` one more, of the first and the last stage; with
/// `shared_basis` one more, of all.
std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head,
                                             bool shared_basis);

/// How long to wait for what (docs/protocol.md, "Deadlines"). Each says what happens then.
struct Patience {
  Duration takeover = std::chrono::seconds(3);  ///< for workers of an earlier trainer: evicted
  /// The same for those without whom a stage, or everything, is lost: one that lives may have to
  /// find the new trainer first, and looks for it every three seconds only.
  Duration takeover_last = std::chrono::seconds(10);
  Duration revoke = std::chrono::seconds(2);      ///< for the answer to Revoke or Void: evicted
  Duration microbatch = std::chrono::seconds(2);  ///< at least, without progress: revoked
  Duration first_microbatch = std::chrono::seconds(60);  ///< the same while nothing is measured
  Duration reduce = std::chrono::seconds(5);             ///< at least: asked again, then evicted
  Duration first_reduce = std::chrono::seconds(60);
  Duration hand_over = std::chrono::seconds(10);  ///< at least, for a parcel: asked again, evicted
  Duration pin = std::chrono::seconds(30);        ///< for donors: without them
  Duration join = std::chrono::seconds(600);      ///< without progress of a joiner: dismissed
  Duration load = std::chrono::seconds(600);      ///< of a checkpoint: evicted
  Duration compute = std::chrono::seconds(10);    ///< at least, for one piece of work: evicted
};

/// Rules that a test may switch off to see that it notices. All on outside of tests.
struct CoordinatorRules {
  bool revoke_before_reissue = true;  ///< rule 9
  bool commit_needs_all = true;       ///< rule 12
  bool takeover_keeps_roster = true;  ///< rule 13
  bool takeover_keeps_record = true;  ///< rule 13
};

struct CoordinatorOptions {
  Term term{1};
  bool take_over = false;  ///< workers may hold the job's state: look for it before anything else
  Generation generation;
  std::vector<std::uint64_t> replicas;  ///< wanted at the start, per stage
  std::uint64_t microbatches = 1;       ///< M
  std::uint64_t in_flight_max = 0;      ///< of a worker (Router); 0: any number
  std::uint64_t max_steps = 1;
  bool delayed = false;
  bool tied_head = false;
  bool shared_basis = false;  ///< all stages have one group in common (model::Layout::basis)
  bool exact = false;         ///< all workers must be of one numeric class
  /// Names of the probes in it that the job depends on; those of all others may differ.
  std::vector<std::string> probes;
  double max_grad_norm = 0;
  std::uint64_t seed = 0;
  std::function<double(Step)> learning_rate;
  std::string job_json;    ///< for Welcome
  Version first_version;   ///< of the state the job begins with
  std::string resume_uri;  ///< of that state's checkpoint; empty: initial weights
  std::uint64_t checkpoint_interval_steps = 0;  ///< 0: only at the end
  std::string checkpoint_uri;                   ///< parent folder; empty: none at all
  /// How long the last one is tried for when it fails, if that takes more than a few tries.
  Duration last_checkpoint_patience = Duration::zero();
  std::uint64_t validation_interval_steps = 0;  ///< 0: never
  std::uint64_t validation_microbatches = 0;
  /// Who moves between stages, and when (balance.h). Workers have no room for a second stage's
  /// state here: a move is a leave and a join.
  BalancePolicy balance = BalancePolicy::kNone;
  Duration balance_period = std::chrono::seconds(300);  ///< of kPeriodic
  /// When stopped before the last step, leave the workers as they are, for the next trainer.
  bool keep_workers = false;
  double unix_epoch = 0;             ///< the wall clock at Timepoint(), in Unix seconds: for Status
  std::uint64_t donors_max = 3;      ///< replicas that pin their state for a joiner
  std::uint64_t join_lag_max = 256;  ///< steps that a joiner may be behind before it begins again
  Patience patience;
  CoordinatorRules rules;
};

class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, Timepoint now);

  /// A message of a worker. Those that are none of the trainer's are ignored.
  Orders OnMessage(const WorkerId& from, const Message& message, Timepoint now);
  /// What a worker says of itself, several times a second. A device that hangs while its process
  /// lives shows here.
  Orders OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now);
  /// The connection broke, or the worker is silent (`connected`): it is evicted.
  Orders OnWorkerLost(const WorkerId& worker, const std::string& why, bool connected,
                      Timepoint now);
  /// The shell has made the checkpoint visible, or could not (`error`).
  Orders OnCheckpointPublished(Version version, const std::string& error, Timepoint now);
  /// The generation is durable, and begins with this state.
  Orders OnGenerationBegun(Generation generation, Version version, const std::string& uri,
                           Timepoint now);
  /// Finish the steps that have begun, write a checkpoint, end. Idempotent.
  Orders OnStopRequested(Timepoint now);
  /// There is no more time for what OnStopRequested began: end without it.
  Orders OnStopOverdue();
  /// Something that cannot be mended; `failure_class` is a word of FailureClass.
  Orders OnFailure(const std::string& reason, const std::string& failure_class);
  /// There is a trainer of a higher term: end, and leave everything to it.
  Orders OnSuperseded(const std::string& reason);
  /// To be called several times a second: everything that has a deadline.
  Orders OnTick(Timepoint now);

  /// The job as a user wants to see it (without what heartbeats tell).
  JobStatus Status() const;
  bool finished() const { return phase_ == Phase::kFinished; }
  Generation generation() const { return generation_; }
  /// Whom the trainer should hear from: those whose silence means something.
  std::vector<WorkerId> Members() const;

 private:
  enum class Phase {
    kTakingOver,   // asking the workers of an earlier trainer
    kWaiting,      // for the workers to begin with
    kStageLost,    // for workers, because a stage has none that is ready
    kRollingBack,  // a generation is being begun
    kLoading,      // all load the state to begin with
    kTraining,
    kFinishing,
    kFinished
  };
  enum class Role {
    kWaiting,     // has come, and serves nothing yet
    kLoading,     // a checkpoint, or the initial weights
    kJoining,     // copies the state of other replicas
    kCatchingUp,  // member of the roster that is a commit behind: gets no microbatches yet
    kReady,
  };
  struct Leave {
    Timepoint deadline;
    /// Of a step's sums.
    struct Parcel {
      WorkerId heir;
      Timepoint asked;    // last
      int tries = 0;      // after the first
      bool held = false;  // by the heir
    };
    std::map<Step, Parcel> parcels;
    /// Of the parcel that was asked for most often.
    int tries() const {
      int most = 0;
      for (const auto& [step, parcel] : parcels) most = std::max(most, parcel.tries);
      return most;
    }
    std::optional<StageIndex> to;  // a move: it comes back as a replica of this stage
    bool IsMove() const { return to.has_value(); }
  };
  struct Worker {
    Member member;  // its stage means nothing while waiting
    Role role = Role::kWaiting;
    Version version;        // applied, as far as it has told
    bool assigned = false;  // a stage of the generation that is being begun
    bool welcomed = false;  // while joining: it knows the donors
    bool loaded = false;    // while loading or joining: it has the state to begin with
    Digest state = {};      // that it has loaded
    Timepoint since;        // of the role
    std::string numeric_class = {};
    Timepoint came = {};         // said hello
    std::uint64_t computed = 0;  // pieces of work, as it last told
    Timepoint computed_at = {};  // when that last grew, or it had nothing to do
    std::optional<Leave> leave = {};
    bool InRoster() const { return role == Role::kCatchingUp || role == Role::kReady; }
  };
  /// Pinned state of a stage, and who copies it.
  struct Join {
    Version version;
    std::set<WorkerId> asked, donors, joiners;
    Digest state;
    Timepoint since;
    bool welcomed = false;  // the donors are known
  };
  struct GroupState {
    std::optional<Attempt> k;             // asked for
    std::map<WorkerId, Reduced> reports;  // of k
    std::vector<WorkerId> participants;
    std::vector<Participant> claims;  // that k names
    Timepoint since;
    int tries = 0;
  };
  struct RowState {
    Timepoint progress;
    Timepoint drawn;  // of one that goes its first way; else none
    int tries = 0;
    bool charged = false;
    WorkerId avoid;  // for the next attempt
    struct Revoking {
      TaskKey key;
      WorkerId worker;
      Timepoint deadline;
    };
    std::optional<Revoking> revoking;
  };
  struct Voiding {
    Attempt number;
    Timepoint deadline;
  };
  struct StepState {
    StepState(std::uint64_t microbatches, std::uint64_t stages)
        : ledger(microbatches, stages), rows(microbatches), levels(stages, 0) {}
    Ledger ledger;
    std::vector<RowState> rows;
    std::vector<std::uint64_t> levels;    // scale level, per stage
    std::map<WorkerId, Voiding> voiding;  // acknowledgements that are awaited
    std::uint64_t boundary_bytes = 0;
    bool begun = false;  // something was issued
    std::map<GroupIndex, GroupState> groups;
    // What was asked for and may be missing where it was asked.
    std::map<TaskKey, std::vector<Forward>> resends;
    std::map<TaskKey, std::pair<WorkerId, TaskKey>> redirects;
  };
  struct Evaluation {
    struct Pass {
      std::vector<Hop> hops;
      Timepoint since;
    };
    Version version;
    std::set<Microbatch> missing;
    std::map<Microbatch, Pass> open;
    std::map<Microbatch, double> losses;
  };
  struct PendingCheckpoint {
    Version version;
    std::map<StageIndex, WorkerId> writers;
    std::map<StageIndex, std::vector<CheckpointFile>> files;
    bool publishing = false;
  };

  // coordinator.cc: what is common, and the way of a step without faults
  std::uint64_t stages() const { return options_.replicas.size(); }
  std::vector<WorkerId> Replicas(StageIndex stage) const;       // in the roster
  std::vector<WorkerId> ReadyReplicas(StageIndex stage) const;  // that can execute
  bool IsTraining() const { return phase_ == Phase::kTraining || phase_ == Phase::kFinishing; }
  Attempt NextAttempt() { return Attempt{options_.term, ++attempts_}; }
  Version VersionFor(Step step) const;
  RowName NameOf(Step step, Microbatch microbatch) const;
  void Broadcast(const Message& message, Orders& orders) const;  // to the roster
  void Fail(std::string reason, std::string failure_class, Orders& orders);
  void Dismiss(const std::string& why, Orders& orders);
  void OnFailed(const WorkerId& from, const Failure& failure, Timepoint now, Orders& orders);
  void Advance(Timepoint now, Orders& orders);
  void IssueAll(Timepoint now, Orders& orders);
  bool IssueEvaluation(Timepoint now, Orders& orders);
  /// Issues the missing cells of a row; false if there is no room for them.
  bool IssueRow(Step step, StepState& state, Microbatch microbatch, Timepoint now, Orders& orders);
  void BeginPass(PassOrders pass, StepState& state, Orders& orders);
  void Touch(StepState& state, Microbatch microbatch, Timepoint now);
  /// The worker has folded the microbatch.
  void MeasureStay(const WorkerId& worker, const StepState& state, Microbatch microbatch,
                   Timepoint now);
  void OnProgress(const WorkerId& from, const Progress& progress, Timepoint now, Orders& orders);
  void OnEvaluated(const WorkerId& from, const TaskReport& report, Orders& orders);
  void ReleaseEvaluation(const Evaluation::Pass& pass);
  void CountBoundary(const TaskReport& report);

  // coordinator_commit.cc: reduces, commits, checkpoints, the end
  void ReduceWhatIsComplete(Step step, StepState& state, Timepoint now, Orders& orders);
  void AskForReduce(Step step, StepState& state, const ReduceGroup& group, Timepoint now,
                    Orders& orders);
  void OnReduceRefused(const WorkerId& from, const ReduceRefused& refused, Timepoint now,
                       Orders& orders);
  void OnReduced(const WorkerId& from, const Reduced& reduced, Timepoint now, Orders& orders);
  bool CommitIfReduced(Timepoint now, Orders& orders);
  /// Reduced gradients of this step and later ones may be asked for by replicas of the stage.
  Step KeepFrom(StageIndex stage) const;
  void AfterCommit(Orders& orders);
  void OnCommitted(const WorkerId& from, const Committed& committed, Timepoint now, Orders& orders);
  void CompareStates(Version version, StageIndex stage, Timepoint now, Orders& orders);
  void RequestCheckpoint(Version version, Orders& orders);
  void OnCheckpointWritten(const WorkerId& from, const CheckpointWritten& written, Timepoint now,
                           Orders& orders);
  void CheckpointOver(Version version, const std::string& error, Timepoint now, Orders& orders);
  void FinishIfDone(Orders& orders);

  // coordinator_members.cc: who comes, serves, joins, leaves
  void OnHello(const Hello& hello, Timepoint now, Orders& orders);
  void OnReady(const WorkerId& from, const Ready& ready, Timepoint now, Orders& orders);
  std::optional<StageIndex> ChooseFirstStage() const;
  StageIndex ChooseJoinStage(const WorkerId& worker);
  void StartIfLoaded(Timepoint now, Orders& orders);
  void PublishRoster(std::vector<Adoption> adoptions, Orders& orders);
  void UpdateRouter();
  void RefuseOtherClasses(Orders& orders);
  void StartJoins(Timepoint now, Orders& orders);
  void OnStatePinned(const WorkerId& from, const StatePinned& pinned, Timepoint now,
                     Orders& orders);
  void WelcomeJoiners(StageIndex stage, Join& join, Timepoint now, Orders& orders);
  void LeaveJoin(const WorkerId& worker, Orders& orders);
  void CatchUp(const WorkerId& id, Worker& worker, Timepoint now, Orders& orders);
  void SendState(const WorkerId& id, Worker& worker, Timepoint now, Orders& orders);
  void OnLeaving(const WorkerId& from, const Leaving& leaving, Timepoint now, Orders& orders);
  void AdvanceLeaves(Timepoint now, Orders& orders);
  void AdvanceLeave(WorkerId id, Worker& worker, Timepoint now, Orders& orders);
  void OnParcelHeld(const WorkerId& from, const ParcelHeld& held, Timepoint now, Orders& orders);
  bool IsReducing(const StepState& state, StageIndex stage) const;
  bool IsHandedOver(Step step, StageIndex stage) const;

  // coordinator_balance.cc: which stage a worker serves, and who moves
  std::vector<double> StageSeconds() const;
  std::vector<StageLoad> Loads() const;
  BalanceModel Model() const;
  void Rebalance(Timepoint now, Orders& orders);
  void GiveUpMoves(Timepoint now, Orders& orders);
  void BeginMove(const WorkerId& id, StageIndex to, const std::string& reason, Timepoint now,
                 Orders& orders);
  void CountChange(double changes);

  // coordinator_direct.cc: what others are told, and who may tell
  void OnObserve(const WorkerId& from, Timepoint now);
  void OnDirect(const WorkerId& from, const Direct& direct, Timepoint now, Orders& orders);
  std::string Drain(const WorkerId& id, Timepoint now, Orders& orders);
  std::string Move(const StageMove& move, Timepoint now, Orders& orders);
  void CountLoss(const WorkerLoss& loss);
  std::string WaitingFor() const;
  double UnixTime(Timepoint time) const;

  // coordinator_recovery.cc: losses, repairs, rollback, takeover
  struct Loss {
    WorkerId worker;
    std::string why;
    bool connected = false;                      // it may live, and is told to come back
    const char* kind = LossKind::kDisconnected;  // null: it leaves in order
  };
  void Evict(const std::vector<Loss>& losses, Timepoint now, Orders& orders);
  void ForgetWorker(const WorkerId& id, Orders& orders);
  void LoseCells(StepState& state, const WorkerId& worker);
  void RollBackIfStageLost(Timepoint now, Orders& orders);
  void BeginGenerationIfStaffed(Timepoint now, Orders& orders);
  void ThawStage(Step step, StepState& state, StageIndex stage, Orders& orders);
  void OnMissing(const WorkerId& from, const Missing& missing, Orders& orders);
  void OnRevoked(const WorkerId& from, const Revoked& revoked, Timepoint now, Orders& orders);
  void VoidWorker(const WorkerId& worker, Step step, StepState& state, Timepoint now,
                  Orders& orders);
  void VoidStage(Step step, StepState& state, StageIndex stage, Timepoint now, Orders& orders);
  void OnVoided(const WorkerId& from, const Voided& voided, Timepoint now, Orders& orders);
  bool IsVoiding(const StepState& state, StageIndex stage) const;
  void CheckRows(Timepoint now, Orders& orders, std::vector<Loss>& losses);
  void CheckReduces(Timepoint now, Orders& orders, std::vector<Loss>& losses);
  Version BeginOf(const Worker& worker) const;
  void CheckMembers(Timepoint now, Orders& orders, std::vector<Loss>& losses);
  Duration RowPatience(int tries) const;
  void OnHolding(const WorkerId& from, const Holding& holding, Timepoint now, Orders& orders);
  void AdoptIfComplete(Timepoint now, Orders& orders);
  bool IsTakeoverLate(const Roster* roster, Timepoint now) const;
  Version NewestHeld(const Roster& roster) const;
  void Adopt(Timepoint now, Orders& orders);
  void AdoptSteps(Timepoint now, Orders& orders);

  const CoordinatorOptions options_;
  const std::vector<ReduceGroup> groups_;
  Generation generation_;
  Router router_;
  Phase phase_ = Phase::kWaiting;
  Timepoint phase_since_;
  std::map<WorkerId, Worker> workers_;
  std::map<StageIndex, Join> joins_;
  std::map<WorkerId, std::pair<StageIndex, Timepoint>>
      moves_;                 // who has left to come back as a replica of that stage
  bool balance_due_ = false;  // membership or a rate has changed
  Timepoint balanced_;        // when it was last decided
  Churn churn_;
  double join_seconds_ = 0;               // from hello to serving, an average
  std::map<WorkerId, Holding> holdings_;  // while taking over
  Epoch epoch_;
  std::uint64_t attempts_ = 0;
  Version version_;                   // commits decided
  std::string begin_uri_;             // of the state that the generation began with
  std::deque<CommitRecord> records_;  // the last ones, of steps that somebody may not have applied
  std::map<Step, StepState> steps_;   // begun, not committed
  std::uint64_t last_step_;           // exclusive: where the job ends
  bool stopping_ = false;
  std::string numeric_class_;  // of the first worker
  std::optional<Evaluation> evaluation_;
  std::optional<PendingCheckpoint> checkpoint_;
  bool final_checkpoint_wanted_ = false;
  int final_checkpoint_tries_ = 0;
  Timepoint final_checkpoint_failed_;  // for the first time
  std::map<std::pair<Version, StageIndex>, std::map<WorkerId, Digest>> states_;  // as reported
  Timepoint last_commit_;
  double seconds_per_step_ = 0;
  double slowest_work_ = 0;    // of a forward or backward, in seconds; decays
  double slowest_gap_ = 0;     // between two signs of progress of a row, in seconds; decays
  double reduce_seconds_ = 0;  // of a reduce, an average
  CommitRecord last_record_;
  double validation_loss_ = 0;
  std::string failure_, failure_class_;
  // For observers.
  JobCounts counts_;
  std::deque<WorkerLoss> lost_;
  std::uint64_t recovering_ = 0;  // losses of members since the last commit
  CheckpointStatus last_checkpoint_;
  std::uint64_t leader_term_ = 0;
  std::optional<Timepoint> operator_heard_;
  bool by_operator_ = false;  // balancing is an operator's affair
};

}  // namespace swarm::protocol
