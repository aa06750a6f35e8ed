// What the operator writes into a SwarmJob's status: for people, and as the operator's only memory.
// Whatever must happen exactly once (a number given out, an end counted) is written here before it
// is acted upon; all else is observed anew.
//
// status_json.h reads and writes it. Members are spelled as in the object; enums as in
// enum_names.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/wall_time.h"

namespace swarm::api {

enum class ConditionStatus { kUnknown, kTrue, kFalse };

/// One of a job's conditions, by Kubernetes' API conventions.
struct Condition {
  std::string type;  ///< one of kConditionTypes
  ConditionStatus status = ConditionStatus::kUnknown;
  std::uint64_t observedGeneration = 0;
  WallTime lastTransitionTime{};  ///< of `status`, not of the reason or message
  std::string reason;             ///< CamelCase, never empty
  std::string message;
  bool operator==(const Condition&) const = default;
};

inline constexpr std::string_view kAccepted = "Accepted";  ///< the manifest can be run
inline constexpr std::string_view kReady = "Ready";        ///< every stage has a ready worker
inline constexpr std::string_view kCapacityAvailable = "CapacityAvailable";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kConditionTypes[] = {kAccepted,  kReady,     kCapacityAvailable,
                                                       kSuspended, kSucceeded, kFailed};

/// The conditions in one word, for people.
enum class JobState {
  kPending,     ///< seen; nothing runs yet
  kRejected,    ///< Accepted is False: the manifest must change
  kStarting,    ///< pods are there, and some stage has had no ready worker yet
  kRunning,     ///< every stage has a ready worker
  kRecovering,  ///< it ran, and some stage or the trainer is missing now
  kSuspending,  ///< the trainer writes its last checkpoint
  kSuspended,
  kSucceeded,
  kFailed,
};

/// What the planner chose where the manifest leaves it open.
struct PlanStatus {
  std::uint64_t replicas = 0;         ///< workers wanted now, all stages together
  std::uint64_t minReplicas = 0;      ///< with fewer ready ones the job is not started
  std::vector<std::uint64_t> layout;  ///< replicas of each stage; what the trainer starts with
  bool operator==(const PlanStatus&) const = default;
};

struct TrainerStatus {
  /// The newest term given out; 0: none. Terms only grow. The end of the trainer's pod of an
  /// earlier term is counted: counting it and giving out the next term are one write.
  std::uint64_t term = 0;
  std::string podName;
  bool operator==(const TrainerStatus&) const = default;
};

struct StageStatus {
  std::uint64_t index = 0;
  std::uint64_t ready = 0;  ///< workers
  bool operator==(const StageStatus&) const = default;
};

struct CheckpointStatus {
  std::uint64_t step = 0;
  std::optional<WallTime> time;
  bool operator==(const CheckpointStatus&) const = default;
};

enum class PoolState {
  kAvailable,
  kDry,      ///< its pods waited longer than pendingSeconds: the next pool is used
  kProbing,  ///< dry, and one pod waits in it to see it return
};

/// The memory of falling back from a pool and returning to it; a pool that has always been
/// available has no entry.
struct PoolStatus {
  std::string name;  ///< as in spec.workers.pools
  PoolState state = PoolState::kAvailable;
  std::optional<WallTime> since;      ///< of `state`
  std::uint64_t attempts = 0;         ///< probes that found it dry; grows the back-off
  std::optional<WallTime> retryTime;  ///< no probe before this
  bool operator==(const PoolStatus&) const = default;
};

struct SwarmJobStatus {
  std::uint64_t observedGeneration = 0;
  JobState state = JobState::kPending;
  std::vector<Condition> conditions;  ///< at most one of each type
  std::uint64_t step = 0;             ///< committed; written at most once a minute
  PlanStatus plan;
  TrainerStatus trainer;
  /// The ordinal the next worker gets. Only grows: a name is never used again within a job.
  std::uint64_t nextWorkerOrdinal = 0;
  /// Ordinals given out whose workers' end is not counted yet, ascending. The exactly-once account:
  /// giving out an ordinal adds it, and the write that counts an end (in preemptions, failures or
  /// unexplained) removes it. So a pod with an ordinal below nextWorkerOrdinal that is not here has
  /// been counted, and an ordinal here without a pod is one that vanished (or was never created).
  /// Written as ranges, "0-4,7": a thousand workers stay a few bytes.
  std::vector<std::uint64_t> openWorkers;
  std::uint64_t replicas = 0;  ///< workers' pods that are there; the scale subresource reads it
  std::uint64_t readyReplicas = 0;  ///< of these, in the roster at the current state
  std::string selector;             ///< of the workers' pods; the scale subresource reads it
  std::vector<StageStatus> stages;  ///< by index
  std::uint64_t preemptions = 0;    ///< ends by the infrastructure; never charged to failurePolicy
  std::uint64_t failures = 0;       ///< ends by the program's own fault, ever
  std::uint64_t unexplained = 0;    ///< ends without evidence for either; not charged
  std::vector<WallTime> failureTimes;  ///< ascending; those within failurePolicy's window
  std::vector<PoolStatus> pools;
  CheckpointStatus lastCheckpoint;
  std::optional<WallTime> startTime;       ///< of the first trainer's reservation
  std::optional<WallTime> completionTime;  ///< succeeded or failed; ttlSecondsAfterFinished counts
  bool operator==(const SwarmJobStatus&) const = default;
};

/// The condition of this type, or null.
const Condition* FindCondition(const SwarmJobStatus& status, std::string_view type);
/// Whether there is one of this type with status True.
bool IsTrue(const SwarmJobStatus& status, std::string_view type);
/// Adds the condition, or puts it in the place of the one of its type. Where the status stays, so
/// does lastTransitionTime.
void SetCondition(const Condition& condition, SwarmJobStatus* status);

}  // namespace swarm::api
