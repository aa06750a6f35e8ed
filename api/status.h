// The status of a SwarmJob. The operator writes it for people, and as its only durable memory: what
// must happen exactly once (reserving a number, counting the end of a pod) is written here before
// the operator acts on it. The operator observes everything else anew.
//
// status_json.h reads and writes it. Members have the spelling of the object's fields; enum_names.h
// has the spelling of the enumerations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/format/wall_time.h"
#include "api/swarmjob.h"

namespace swarm::api {

enum class ConditionStatus { kUnknown, kTrue, kFalse };

enum class ConditionType {
  kAccepted,           ///< the job can be run
  kReady,              ///< every stage has a ready worker
  kCapacityAvailable,  ///< no worker waits too long for a node
  kAdmitted,           ///< the job's queue lets it have pods; only a job with a queue has it
  kSuspended,
  kSucceeded,
  kFailed,
  kBudgetSpent,  ///< the workers have cost what spec.budget allows
  /// Each other cluster in which the job has pools is connected; only a job with such pools has it.
  kClustersConnected,
};

/// One of a job's conditions, as Kubernetes' API conventions define them. `type` and `reason` are
/// text, because a later version of the operator may have written others.
struct Condition {
  std::string type;  ///< the name of a ConditionType
  ConditionStatus status = ConditionStatus::kUnknown;
  std::uint64_t observedGeneration = 0;
  WallTime lastTransitionTime{};  ///< when `status` last changed; reason and message do not count
  std::string reason;             ///< the name of a Reason (reason.h); never empty
  std::string message;
  bool operator==(const Condition&) const = default;
};

/// A summary of the conditions in one word, for people.
enum class JobState {
  kPending,     ///< no pod has a node yet
  kRejected,    ///< Accepted is False: the manifest must change
  kStarting,    ///< some pods have nodes; some stage has never had a ready worker
  kRunning,     ///< every stage has a ready worker
  kRecovering,  ///< the job was running; some stage or the trainer is missing now
  kSuspending,  ///< the trainer writes its last checkpoint
  kSuspended,
  kSucceeded,
  kFailed,
};

/// What the planner chose for a job with `pipeline.stages: Auto`. An absent field was not open, or
/// keeps its default. Once the job has started the choice stays as it is.
struct PlanChoice {
  std::uint64_t generation = 0;  ///< of the manifest that it was made for
  std::uint64_t stages = 1;
  std::optional<std::vector<std::uint64_t>> layers;  ///< as in pipeline.boundary
  std::optional<BoundaryCodec> codec;
  std::optional<Residency> residency;
  std::optional<StepMode> stepMode;
  std::optional<bool> overlap;  ///< of training.local
  std::optional<std::uint64_t> microbatchSize;
  std::optional<std::uint64_t> inFlightMax;
  std::optional<std::uint64_t> deviceMemory;  ///< bytes: pipeline.memory.device
  std::optional<std::uint64_t> replicas;
  // Predictions. Absent where only the memory of the workers is known.
  std::optional<double> tokensPerSecond;
  std::string limitedBy;  ///< what keeps it from being more, in words
  std::optional<double> dollarsPerBillionTokens;
  bool operator==(const PlanChoice&) const = default;
};

/// What the operator chose where the manifest leaves it open.
struct PlanStatus {
  std::uint64_t replicas = 0;         ///< workers wanted now, all stages together
  std::uint64_t minReplicas = 0;      ///< the job does not start with fewer ready workers
  std::vector<std::uint64_t> layout;  ///< replicas of each stage when the trainer starts
  std::optional<PlanChoice> choice;   ///< none: the manifest has a number of stages
  bool operator==(const PlanStatus&) const = default;
};

/// Which programs of the job have once done their work, whatever has become of their pods. Before
/// that, what another try cannot mend fails the job at once; afterwards it is a failure like
/// others.
struct HasRunStatus {
  bool trainer = false;  ///< a trainer has trained
  bool workers = false;  ///< a worker's pod was ready
  bool operator==(const HasRunStatus&) const = default;
};

/// The operator's image for pods whose template names none, as it was when the job began or was
/// last resumed. An operator of another version makes pods of this image, too: the programs of a
/// job are of one version.
struct ImageStatus {
  std::string name;      ///< empty: the job has not begun
  std::string platform;  ///< OS/ARCHITECTURE that it is for; empty: not known
  std::string update;    ///< the job's annotation swarmjob.dev/update-image that it heeds
  bool operator==(const ImageStatus&) const = default;
};

struct TrainerStatus {
  /// The newest reserved term; 0: none. Terms only grow. One write counts the end of a trainer's
  /// pod and reserves the next term, so the ends of all earlier terms are counted.
  std::uint64_t term = 0;
  std::string podName;
  /// Of the manifest that its pod was made of, or that it will read; 0: not known.
  std::uint64_t generation = 0;
  bool operator==(const TrainerStatus&) const = default;
};

/// How training goes, as the trainer last said it: rounded, so that a write says something new.
struct ProgressStatus {
  std::optional<double> loss;                ///< of the last step; four digits
  std::uint64_t tokens = 0;                  ///< of all committed steps
  std::uint64_t tokensPerSecond = 0;         ///< three digits; 0 while the job is not Ready
  std::optional<std::uint64_t> secondsLeft;  ///< as at this rate; absent while the job is not Ready
  std::string timeLeft;                      ///< secondsLeft for people: "5h20m"
  std::optional<WallTime> time;              ///< when it, or status.step, was last another
  bool operator==(const ProgressStatus&) const = default;
};

/// What the job's workers and their traffic cost, by the prices of the manifest (plan/money/cost.h
/// has which moments count). All of it is 0 or absent while nothing has a price.
struct CostStatus {
  double dollars = 0;                   ///< so far; it never falls
  std::optional<WallTime> countedTime;  ///< `dollars` has what was held until then
  std::string spent;                    ///< `dollars` for people: "$12.35"
  double dollarsPerHour = 0;            ///< of all machines that are held now
  double trafficDollarsPerHour = 0;     ///< of the bytes between regions, over about a minute
  // At the present rate of training. Absent while the job is not Ready.
  std::optional<double> dollarsPerStep;
  std::optional<double> dollarsPerBillionTokens;
  bool operator==(const CostStatus&) const = default;
};

/// What the workers of two regions have exchanged. Each trainer counts from its own start.
struct TrafficStatus {
  std::vector<std::string> between;  ///< the two regions, in order
  std::uint64_t bytes = 0;           ///< so far; it never falls
  double dollars = 0;                ///< of CostStatus::dollars
  std::uint64_t term = 0;            ///< of the trainer that counts
  std::uint64_t bytesBefore = 0;     ///< of `bytes`: before that trainer began
  bool operator==(const TrafficStatus&) const = default;
};
inline constexpr std::size_t kTrafficStatusMax = 128;

struct StageStatus {
  std::uint64_t index = 0;
  std::uint64_t ready = 0;  ///< number of ready workers
  bool operator==(const StageStatus&) const = default;
};

struct CheckpointStatus {
  std::uint64_t step = 0;
  std::optional<WallTime> time;
  bool operator==(const CheckpointStatus&) const = default;
};

enum class ClusterState {
  kExpected,   ///< its satellite has not come, and may do so any moment
  kConnected,  ///< the operator reaches it
  kAway,       ///< the operator has not reached it for longer than the grace period
};

/// Of the job's openWorkers, those of a pool in a cluster.
struct PoolWorkers {
  std::string pool;
  std::vector<std::uint64_t> openWorkers;
  bool operator==(const PoolWorkers&) const = default;
};

/// A cluster beside the job's own that has pools or pods of the job.
struct ClusterStatus {
  std::string name;  ///< as in spec.workers.pools
  ClusterState state = ClusterState::kExpected;
  std::optional<WallTime> since;    ///< when it came into `state`; none: it is expected
  std::uint64_t replicas = 0;       ///< of the job's replicas, those there
  std::uint64_t readyReplicas = 0;  ///< of the job's readyReplicas, those there
  /// All of the job's openWorkers that are there; an operator that begins while the cluster is away
  /// knows them from here. None: an earlier version of the operator wrote this status.
  std::optional<std::vector<PoolWorkers>> workers;
  bool operator==(const ClusterStatus&) const = default;
};

enum class PoolState {
  kAvailable,
  kDry,      ///< a pod waited longer than pendingSeconds: workers go to the next pool
  kProbing,  ///< dry, and one pod waits in it to detect that capacity returns
};

/// What the operator remembers of falling back from a pool and returning to it. A pool that has
/// always been available has no entry.
struct PoolStatus {
  std::string name;  ///< as in spec.workers.pools
  PoolState state = PoolState::kAvailable;
  std::optional<WallTime> since;      ///< when the pool came into `state`
  std::uint64_t attempts = 0;         ///< probes that found it dry; each makes the back-off longer
  std::optional<WallTime> retryTime;  ///< no probe before this
  bool operator==(const PoolStatus&) const = default;
};

/// What the operator remembers of a node on which pods of the job failed, for an hour after the
/// last of them.
struct NodeStatus {
  std::string name;
  std::string hostname;        ///< its label kubernetes.io/hostname: the scheduler's word for it
  std::uint64_t failures = 0;  ///< since the node was last forgotten
  WallTime lastFailureTime{};
  bool avoided = false;  ///< the job's new pods prefer other nodes
  bool operator==(const NodeStatus&) const = default;
};
inline constexpr std::size_t kNodeStatusMax = 32;

/// A machine that has joined with a token, and may take part.
struct MachineStatus {
  std::uint64_t ordinal = 0;  ///< in the name of its worker; no pod has it
  std::string pool;           ///< as in spec.workers.machinePools
  std::string token;          ///< its name
  WallTime certificateEnds{};
  bool operator==(const MachineStatus&) const = default;
};

struct SwarmJobStatus {
  std::uint64_t observedGeneration = 0;
  JobState state = JobState::kPending;
  std::vector<Condition> conditions;  ///< at most one of each type
  std::uint64_t step = 0;             ///< committed; written at most once a minute
  ProgressStatus progress;            ///< written at most once a minute
  CostStatus cost;                    ///< so is this, and whenever the status is written
  /// Sorted by `between`; written with `cost`. Of more pairs than kTrafficStatusMax the first
  /// count.
  std::vector<TrafficStatus> traffic;
  /// Of the model. None: its config is in a folder, which the operator does not read.
  std::optional<std::uint64_t> parameters;
  PlanStatus plan;
  HasRunStatus hasRun;
  ImageStatus image;
  TrainerStatus trainer;
  /// The ordinal of the next worker. It only grows: a job never uses a name twice.
  std::uint64_t nextWorkerOrdinal = 0;
  /// Reserved ordinals whose worker's end is not counted yet, ascending. This is the exactly-once
  /// account. Reserving an ordinal adds it. The write that counts the worker's end (in preemptions,
  /// failures or unexplained) removes it. So a pod with an ordinal below nextWorkerOrdinal that is
  /// not in this list has been counted; an ordinal in this list without a pod belongs to a pod that
  /// vanished or was never created. Written as ranges, "0-4,7", so that a thousand workers take a
  /// few bytes.
  std::vector<std::uint64_t> openWorkers;
  /// By ordinal. The certificate of a machine that is not here, and whose ordinal is below
  /// nextWorkerOrdinal, counts no more.
  std::vector<MachineStatus> machines;
  /// Workers that exist, one for each device of their pods; the scale subresource reads it.
  std::uint64_t replicas = 0;
  std::uint64_t readyReplicas = 0;      ///< those in the roster with the current state
  std::vector<ClusterStatus> clusters;  ///< by name; without the job's own
  /// Ready of existing workers by cluster, for people: "home 2/2, west 1/2 (away)". Empty: all of
  /// the job is in its own cluster.
  std::string readyByCluster;
  std::string selector;             ///< of the worker pods; the scale subresource reads it
  std::vector<StageStatus> stages;  ///< by index
  std::uint64_t preemptions = 0;    ///< ends by the infrastructure; never charged to failurePolicy
  std::uint64_t failures = 0;       ///< ends by the program's own fault, since the job began
  std::uint64_t unexplained = 0;    ///< ends without evidence for either; not charged
  std::vector<WallTime> failureTimes;  ///< ascending; those within failurePolicy's window
  std::vector<PoolStatus> pools;
  std::vector<NodeStatus> nodes;  ///< at most kNodeStatusMax, those whose last failure is newest
  CheckpointStatus lastCheckpoint;
  std::optional<WallTime> startTime;       ///< when the first trainer's term was reserved
  std::optional<WallTime> completionTime;  ///< when the job succeeded or failed;
                                           ///< ttlSecondsAfterFinished counts from here
  bool operator==(const SwarmJobStatus&) const = default;
};

/// The condition of this type, or null.
const Condition* FindCondition(const SwarmJobStatus& status, ConditionType type);
/// Whether the condition of this type exists and has status True.
bool IsTrue(const SwarmJobStatus& status, ConditionType type);
/// Adds the condition, or replaces the one of its type. lastTransitionTime changes only if the
/// condition's status does.
void SetCondition(const Condition& condition, SwarmJobStatus* status);

}  // namespace swarm::api
