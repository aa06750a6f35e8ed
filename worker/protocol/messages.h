// What trainer and workers say to each other, as values. proto/swarmjob/v1 declares the same on the
// wire and worker/net translates; nothing here knows a byte of it.
//
// Control messages come from or go to the trainer and are fenced by its term. Data messages go from
// worker to worker (the first forward of a microbatch from the trainer) and are fenced by their
// key.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// The version of the protocol that this program speaks; hello refuses another.
inline constexpr std::uint32_t kProtocolVersion = 2;

// ---- who is there ----

/// One way to reach a worker.
struct Address {
  std::string scope;            ///< who can use it: "cluster" or "global"
  std::string dial;             ///< host:port
  std::string tls_server_name;  ///< for SNI gateways; may be empty
  bool operator==(const Address&) const = default;
};

/// A worker as the roster knows it.
struct Member {
  WorkerId id;
  Incarnation incarnation;
  StageIndex stage;
  std::string cluster;
  std::vector<Address> addresses;
  std::string region;  ///< for accounts of what crosses regions
  bool operator==(const Member&) const = default;
};

/// worker → trainer: the first message on a new connection.
struct Hello {
  std::uint32_t protocol_version = kProtocolVersion;
  WorkerId id;
  Incarnation incarnation;
  std::string cluster;
  std::vector<Address> addresses;
  std::uint64_t threads = 0;  ///< compute threads, for the layout
  Term term;                  ///< the highest that this incarnation has promised; 0: none
  bool serving = false;  ///< holds state of a stage: a trainer that does not know it must take over
  std::string numeric_class;  ///< what makes its results what they are; compared in exact jobs
  std::string region;         ///< for accounts of what crosses regions
};

/// trainer → worker: accepted; what the job is and what this worker has to do in it.
struct Welcome {
  Term term;
  Generation generation;
  std::string job_json;  ///< the SwarmJob with all defaults filled in
  StageIndex stage;
  std::uint64_t stage_count = 0;
  Version version;                  ///< of the state to begin with
  std::string checkpoint_uri = {};  ///< where that state is; empty: the initial weights of the job
  /// Not empty: the state comes from these replicas of the stage, which have pinned it, and
  /// checkpoint_uri means nothing (rule 17).
  std::vector<Member> donors = {};
  Digest state = {};  ///< of the pinned state
  /// Attempts below were not for this incarnation, but for one before it of the same id.
  Attempt floor = {};
};

/// worker → trainer: holds `version` of its stage's state and can execute.
struct Ready {
  Generation generation;
  StageIndex stage;
  Version version;
  Digest state;  ///< of parameters and optimizer; equal on all replicas of the stage
};

/// The accumulated gradients of a worker that left in order, from now on its heir's (rule 16).
struct Adoption {
  WorkerId donor;
  WorkerId heir;
  Step step;
  bool operator==(const Adoption&) const = default;
};

/// trainer → workers: the roster of an epoch. Who was in an earlier one and is not in this is
/// evicted: what it still sends is refused (rule 15).
struct Roster {
  Term term;
  Generation generation;
  Epoch epoch;
  std::vector<Member> members;  ///< sorted by id
  std::vector<Adoption> adoptions;
  bool operator==(const Roster&) const = default;
};

/// Both directions, several a second, on the control connection.
struct Heartbeat {
  Term term;  ///< the highest term the sender knows
  std::uint64_t compute_progress =
      0;                           ///< counts finished pieces of work: a hung device stands still
  std::uint64_t queued_tasks = 0;  ///< pieces of work that wait for the device, or are on it
  std::uint64_t bytes_sent = 0;    ///< activations and gradients, since the start
  double busy_seconds = 0;         ///< of compute, since the start
};

// ---- execution ----

/// One step of a microbatch's way: who executes a stage, as which attempt, and whether the backward
/// there folds its gradients (recomputing is not contributing: rule 5).
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
/// A pass covers the stages from key.stage to `end`, which for a fresh microbatch are all. A pass
/// that repairs something is shorter, and what lies around it is alive already: its first stages
/// may only recompute (no graph is kept below `first`), its last one gets its gradient by a
/// Redirect.
struct Forward {
  TaskKey key;
  Version version;  ///< of the weights to use
  TaskKind kind = TaskKind::kTrain;
  std::vector<Hop> hops;  ///< one a stage; hop of key.stage names this task
  StageIndex end;    ///< exclusive: the output is not sent on to this stage and those behind it
  StageIndex first;  ///< the lowest stage of this pass that does a backward
  Hop upstream;      ///< who gets the input gradient of stage `first`; empty worker: nobody
  Bytes tokens;      ///< sequences * tokens_per_sequence ids, little-endian int32
  std::uint32_t sequences = 0;            ///< B of the microbatch
  std::uint32_t tokens_per_sequence = 0;  ///< L + 1: inputs and, shifted by one, labels
};

/// next stage → worker: the gradient of the loss by the output of `key` (stage and attempt are the
/// receiver's). Payload: the boundary's encoding of g_{s+1}.
struct Backward {
  TaskKey key;
  Version version;
};

/// What a worker did with one task: a hint, and a measurement (rules 7, 24).
struct TaskReport {
  TaskKey key;
  enum class Event : std::uint8_t {
    kForwarded = 0,
    kFolded = 1,
    kEvaluated = 2,
    kPropagated = 3,  ///< a backward that does not fold
    kOverflow = 4,    ///< not folded: it does not fit the step's scale (exact accumulation)
  } event{};
  double loss = 0;     ///< mean nats per token; last stage's kFolded and kEvaluated only
  double seconds = 0;  ///< compute time of this part of the task
  std::uint64_t boundary_bytes = 0;  ///< that this part sent on to another stage
};

/// worker → trainer, batched.
struct Progress {
  std::vector<TaskReport> reports;
};

// ---- recovery ----

/// trainer → worker: send the output of your task `source` as `frame` to the worker that it names
/// (its tokens are those of the task). If the forward is not done yet: go on with the hops of
/// `frame` when it is. If the task has not come yet: when it has.
struct Resend {
  Term term;
  TaskKey source;
  Forward frame;  ///< without tokens
};

/// trainer → worker: the input gradient of your task `source` goes to `to`, as that of `target`:
/// now if it is there, else when it is.
struct Redirect {
  Term term;
  TaskKey source;
  WorkerId to;
  TaskKey target;
};

/// worker → trainer: the task is over and what it put out is not retained any more.
struct Missing {
  TaskKey source;
  bool gradient = false;  ///< the input gradient (Redirect); else the output (Resend)
};

/// trainer → worker: stop this attempt; it must not fold any more (rule 9).
struct Revoke {
  Term term;
  TaskKey key;
};

/// worker → trainer: the answer to Revoke.
struct Revoked {
  TaskKey key;
  bool folded = false;  ///< it was folded before; else it never will be
};

/// trainer → worker: clear accumulator and fold set of the step, close its attempts, thaw (rule 9).
struct Void {
  Term term;
  Generation generation;
  Step step;
  Attempt number;           ///< named in the answer
  std::uint64_t level = 0;  ///< of the step's scale from now on (exact accumulation)
};

/// worker → trainer.
struct Voided {
  Generation generation;
  Step step;
  Attempt number;
};

/// trainer → worker: the reduces of the step are off; folds go on (rule 11).
struct Thaw {
  Term term;
  Generation generation;
  Step step;
};

/// trainer → worker: forget the generation before and begin anew, as this stage, from this state.
/// Answered with Ready (rule 19).
struct Rollback {
  Term term;
  Generation generation;
  StageIndex stage;
  Version version;
  std::string checkpoint_uri;  ///< empty: the initial weights
};

// ---- leaving and joining ----

/// worker → trainer: this worker was told that it will be ended.
struct Leaving {
  double seconds = 0;  ///< until then
};

/// trainer → leaving worker: fold nothing more into the step, and hand its sums to `heir`.
struct HandOver {
  Term term;
  Generation generation;
  Step step;
  WorkerId heir;
};

/// A contribution in a sum.
struct Contribution {
  Microbatch microbatch;
  Attempt attempt;
  double loss = 0;  ///< last stage only
  bool operator==(const Contribution&) const = default;
};

/// leaving worker → heir: a piece of the sums of one group. Payload: accumulator elements, little
/// endian. Counts from the epoch whose roster says so, not before.
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

/// heir → trainer: the whole parcel is here.
struct ParcelHeld {
  Generation generation;
  Step step;
  WorkerId donor;
  std::vector<Contribution> contributions;
};

/// trainer → replica: keep a copy of your state of `version` for those who join.
struct PinState {
  Term term;
  Generation generation;
  Version version;
};

/// replica → trainer.
struct StatePinned {
  Generation generation;
  Version version;
  Digest state;
  std::string error;  ///< empty: pinned
};

/// trainer → replica: nobody needs it any more.
struct UnpinState {
  Term term;
  Generation generation;
  Version version;
};

/// What can be fetched from another replica in pieces.
enum class FetchKind : std::uint8_t {
  kStateIndex = 0,     ///< the list of the pinned state's pieces, each with its digest
  kState = 1,          ///< a piece of the pinned state
  kGradient = 2,       ///< a piece of the reduced gradient of a step that is decided
  kGradientIndex = 3,  ///< the list of that gradient's pieces, each with its digest
};

/// joining worker → replica.
struct Fetch {
  Generation generation;
  FetchKind kind{};
  Version version;   ///< of the pinned state; of a gradient: the step's number
  GroupIndex group;  ///< of a gradient
  Attempt k;         ///< of a gradient
  std::uint64_t piece = 0;
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
};

// ---- reduce and commit ----

/// The microbatches of one stage whose gradients a worker has folded; sorted, without duplicates.
struct ClaimSet {
  StageIndex stage;
  std::vector<Microbatch> microbatches;
  bool operator==(const ClaimSet&) const = default;
};

/// One worker of a reduce, and exactly what it contributes.
struct Participant {
  WorkerId worker;
  ClaimSet claims;
  bool operator==(const Participant&) const = default;
};

/// trainer → participants: sum your accumulators of the group (rules 8 and 11).
struct Reduce {
  Term term;
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  std::vector<Participant> participants;  ///< the order of summation
  std::uint64_t level = 0;                ///< of the step's scale (exact accumulation)
};

/// worker → trainer: my fold set is another one; nothing was frozen.
struct ReduceRefused {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  ClaimSet folded;
};

/// worker → worker: a piece of a shard. Payload: float32, or int64 with exact accumulation; little
/// endian.
struct ReduceChunk {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  enum class Phase : std::uint8_t {
    kScatter = 0,  ///< a contribution, to the shard's owner
    kGather = 1,   ///< the sum, from the shard's owner
  } phase{};
  std::uint64_t offset = 0;  ///< first element, in the group's flat order
};

/// A tensor's share in the global norm.
struct TensorNorm {
  std::string tensor;
  double squared =
      0;  ///< in double, over fixed blocks, so that its value has one order of summation
};

/// worker → trainer: the sum is here, in a buffer of its own.
struct Reduced {
  Generation generation;
  Step step;
  GroupIndex group;
  Attempt k;
  Digest digest;  ///< of the index of its pieces (state::PiecedBytes)
  std::vector<TensorNorm> norms;
};

/// The result of one group's reduce that a commit binds.
struct GroupResult {
  GroupIndex group;
  Attempt k;
  Digest digest;
  std::uint64_t level = 0;  ///< of the step's scale (exact accumulation)
  bool operator==(const GroupResult&) const = default;
};

/// The decision about a step (rule 12). Idempotent: whoever holds these results may apply it.
struct CommitRecord {
  Generation generation;
  Step step;
  std::vector<GroupResult> groups;
  double clip = 1;  ///< factor on the gradients
  double learning_rate = 0;
  double loss = 0;
  double grad_norm = 0;
  bool skip = false;  ///< the gradients were not finite: versions advance, weights stay
  bool operator==(const CommitRecord&) const = default;
};

/// trainer → workers.
struct Commit {
  Term term;
  CommitRecord record;
  Step keep_from;  ///< reduced gradients of this step and later ones may still be asked for
};

/// worker → trainer: applied; holds version step + 1.
struct Committed {
  Generation generation;
  Step step;
  Digest state;
};

// ---- checkpoints ----

/// trainer → one replica of a stage: write your state of `version` below `uri`. Sent right after
/// the commit that made the version; the worker takes a copy before it applies another commit.
struct WriteCheckpoint {
  Term term;
  Generation generation;
  Version version;
  std::string uri;
};

/// One file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  Digest digest;
};

/// worker → trainer: written, or the reason why not.
struct CheckpointWritten {
  Generation generation;
  Version version;
  StageIndex stage;
  std::string error;  ///< empty: written
  std::vector<CheckpointFile> files;
};

// ---- ends ----

/// Why a job, or a worker, cannot go on: one word for programs, stable.
struct FailureClass {
  static constexpr const char* kBadConfig = "BadConfig";            ///< the job as it was asked for
  static constexpr const char* kStorageRefused = "StorageRefused";  ///< no right, no such bucket
  static constexpr const char* kStorageUnavailable = "StorageUnavailable";
  static constexpr const char* kDeviceMemory = "DeviceMemory";  ///< out of memory
  static constexpr const char* kWorkerFailed = "WorkerFailed";  ///< a worker found something wrong
  static constexpr const char* kDiverged = "Diverged";  ///< replicas differ; nobody can tell why
  static constexpr const char* kSuperseded = "Superseded";  ///< there is a trainer of a higher term
  static constexpr const char* kInternal = "Internal";
};

/// worker → trainer: this worker cannot go on. What another worker would not do better either (a
/// wrong checkpoint, a broken model) ends the job; kDeviceMemory and kStorageUnavailable do not.
struct Failure {
  std::string reason;
  std::string failure_class;  ///< a word of FailureClass; empty: kWorkerFailed
};

/// trainer → worker: the job is over, or this worker is not wanted; leave.
struct Shutdown {
  Term term;
  std::string reason;
  bool rejoin = false;  ///< come back empty, as a new incarnation
};

// ---- takeover ----

/// A new trainer → workers: promise this term, close all attempts of lower ones that are not
/// folded, and say what you hold (rule 13).
struct Takeover {
  Term term;
};

/// One group's reduce, as a worker holds it.
struct HeldReduce {
  GroupIndex group;
  Attempt k;
  std::vector<WorkerId> participants;
  bool operator==(const HeldReduce&) const = default;
};

/// What a worker holds of a step that it has not applied.
struct HeldStep {
  Step step;
  std::uint64_t level = 0;
  std::vector<Contribution> folded;  ///< sorted by microbatch
  std::vector<HeldReduce> reduces;   ///< that have frozen it
};

/// worker → new trainer: everything that matters (rule 3).
struct Holding {
  Term term;
  Generation generation;
  Member self;
  Version version;
  Roster roster;                      ///< the last one heard of
  std::vector<CommitRecord> records;  ///< heard of and kept, applied or not; ordered by step
  std::vector<HeldStep> steps;
  /// Of the steps before those, the last ones that it has applied, ordered: nothing is decided from
  /// them, but the trainer's account of the losses may lack them.
  std::vector<CommitRecord> past = {};
};

// ---- observers ----

/// observer → trainer: how is the job? Answered with JobStatus.
struct Observe {};

/// What a worker is to its stage.
enum class WorkerState : std::uint8_t {
  kLoading = 0,  ///< a checkpoint or the initial weights, before the job begins (again)
  kJoining = 1,  ///< copies the state of the other replicas
  kReady = 2,    ///< in the roster, at the current state
  kLeaving = 3,  ///< serves to the end of what it has, and then ends
  kMoving = 4,   ///< the same, and comes back as a replica of another stage
};

/// A stage and who serves it, or will.
struct StageStatus {
  StageIndex stage;
  struct Worker {
    WorkerId id;
    std::uint64_t in_flight = 0;
    std::uint64_t queued = 0;
    double utilization = 0;       ///< busy compute seconds per wall second, over the last seconds
    double bytes_per_second = 0;  ///< sent over boundaries
    double microbatches_per_second = 0;  ///< service rate; of one not measured that of its stage
    WorkerState state{};
  };
  std::vector<Worker> workers;
  double cost = 1;  ///< of a microbatch, relative to the mean of all stages (StageLoad::cost)
};

/// A worker that goes, or is to go, to another stage.
struct StageMove {
  WorkerId worker;
  StageIndex to;
  bool operator==(const StageMove&) const = default;
};

/// How the loss of a worker shows: one word for programs, stable.
struct LossKind {
  static constexpr const char* kDisconnected = "Disconnected";  ///< its connection broke
  static constexpr const char* kSilent = "Silent";              ///< no sign of life
  static constexpr const char* kRestarted = "Restarted";        ///< its process began anew
  static constexpr const char* kStuck = "Stuck";                ///< its device does not come on
  static constexpr const char* kUnresponsive = "Unresponsive";  ///< lives, and does not answer
  static constexpr const char* kWrongState = "WrongState";      ///< holds other weights
  static constexpr const char* kLate = "Late";      ///< to load, to join, or to hand over
  static constexpr const char* kFailed = "Failed";  ///< said that it cannot go on
};

/// A worker that was lost. Those that leave in order are not.
struct WorkerLoss {
  std::uint64_t number = 0;  ///< 1 for the first that this trainer has seen
  WorkerId worker;
  StageIndex stage;
  std::string kind;  ///< a word of LossKind
  std::string text;  ///< for people
  double time = 0;   ///< Unix seconds, by the trainer's clock
};

/// How often what has happened, since this trainer's process began.
struct JobCounts {
  std::uint64_t losses = 0;       ///< workers that were lost
  std::uint64_t leaves = 0;       ///< workers that handed over and left, moves not counted
  std::uint64_t moves = 0;        ///< between stages, begun
  std::uint64_t joins = 0;        ///< of workers that serve since then
  std::uint64_t recoveries = 0;   ///< losses of members after which a step was committed
  std::uint64_t rollbacks = 0;    ///< generations that were begun because a stage was lost
  std::uint64_t replays = 0;      ///< contributions that were lost and computed once more
  std::uint64_t revocations = 0;  ///< microbatches taken from a worker that did not get on
};

/// The newest checkpoint that this trainer has published or has begun with.
struct CheckpointStatus {
  Version version;             ///< 0: none
  double time = 0;             ///< Unix seconds; 0: not known (of a run before)
  std::uint64_t failures = 0;  ///< since the last one that was written
  std::string error;           ///< of the last try, if it failed
};

/// What the balance of the stages is decided with (BalanceModel), as this job measures it.
struct BalanceStatus {
  double state_load_seconds = 0;
  double changes_per_worker_second = 0;
  std::vector<StageMove> moving;  ///< who leaves for another stage, or is on its way
  bool by_operator = false;       ///< the trainer leaves it to one that it has heard lately
};

/// trainer → observer.
struct JobStatus {
  /// Waiting, TakingOver, Loading, Training, Finishing, Succeeded, Failed, Superseded
  std::string state;
  std::string message;
  Step step;  ///< committed steps
  std::uint64_t max_steps = 0;
  double loss = 0;
  double validation_loss = 0;  ///< 0 where there was none
  double tokens_per_second = 0;
  double seconds_left = 0;
  std::vector<StageStatus> stages;
  Term term;  ///< of the trainer
  Generation generation;
  std::string waiting_for;       ///< what the job cannot go on without, for people; or empty
  std::string failure_class;     ///< a word of FailureClass; empty: not failed
  std::vector<WorkerId> spares;  ///< have come, and have no stage yet
  std::vector<WorkerLoss> lost;  ///< the last ones, oldest first (a bounded number)
  CheckpointStatus checkpoint;
  JobCounts counts;
  BalanceStatus balance;
  std::uint64_t leader_term = 0;  ///< highest of Direct; 0: none
};

/// Whether this is an operator, who may direct; its certificate says so (net::IdentityUri).
inline bool IsOperator(const WorkerId& id) {
  return id.value == "operator" || id.value.starts_with("operator/");
}

/// Whether this is an operator or an observer, to whom a worker has nothing to say.
inline bool IsOnlooker(const WorkerId& id) {
  return IsOperator(id) || id.value == "observer" || id.value.starts_with("observer/");
}

/// operator → trainer: who shall leave, and who shall serve another stage. Fenced by the term of
/// the operator's lease: of two that believe to lead, the later one counts.
struct Direct {
  std::uint64_t leader_term = 0;  ///< of the operator's lease (its transitions), above 0
  std::uint64_t number = 0;       ///< of this message, for the reply
  std::vector<WorkerId> drain;    ///< hand over what they have and end; for good
  std::vector<StageMove> moves;   ///< a worker without a stage is placed, another moves
};

/// trainer → operator.
struct DirectReply {
  std::uint64_t number = 0;       ///< of the Direct
  bool accepted = false;          ///< what it says is done, but for what `why` names
  std::string why;                ///< what is not done, for people; empty: all is
  std::uint64_t leader_term = 0;  ///< the highest that was seen
};

using Message =
    std::variant<Hello, Welcome, Ready, Roster, Heartbeat, Forward, Backward, Progress, Reduce,
                 ReduceRefused, ReduceChunk, Reduced, Commit, Committed, WriteCheckpoint,
                 CheckpointWritten, Failure, Shutdown, Observe, JobStatus, Resend, Redirect,
                 Missing, Revoke, Revoked, Void, Voided, Thaw, Rollback, Leaving, HandOver, Parcel,
                 ParcelHeld, PinState, StatePinned, UnpinState, Fetch, Fetched, Takeover, Holding,
                 Direct, DirectReply>;

}  // namespace swarm::protocol
