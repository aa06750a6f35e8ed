// What a trainer tells observers of a job, and the orders of an operator.
// proto/swarmjob/v1/observers.proto has the same on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// observer → trainer: asks for the job's status. Answered with JobStatus.
struct Observe {};

/// The role of a worker in its stage.
enum class WorkerState : std::uint8_t {
  kLoading = 0,  ///< a checkpoint or the initial weights, before the job begins (again)
  kJoining = 1,  ///< copies the state of the other replicas
  kReady = 2,    ///< in the roster, at the current state
  kLeaving = 3,  ///< serves to the end of its work, and then ends
  kMoving = 4,   ///< the same, and comes back as a replica of another stage
};

/// A stage, and the workers that serve it or will serve it.
struct StageStatus {
  StageIndex stage;
  struct Worker {
    WorkerId id;
    std::uint64_t in_flight = 0;
    std::uint64_t queued = 0;
    double utilization = 0;       ///< busy compute seconds per wall second, over the last seconds
    double bytes_per_second = 0;  ///< sent over boundaries
    double microbatches_per_second = 0;  ///< service rate; if not measured, that of its stage
    WorkerState state{};
    std::string region;  ///< where it runs; empty: unknown
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

/// Why a worker was evicted. Programs read the names.
enum class EvictionCause : std::uint8_t {
  kUnknown,       ///< a word of another version of the program
  kDisconnected,  ///< its connection broke
  kSilent,        ///< it gave no sign of life
  kRestarted,     ///< its process began anew
  kStuck,         ///< its device makes no progress
  kUnresponsive,  ///< it lives, but does not answer
  kWrongState,    ///< it holds other weights than the other replicas
  kLate,          ///< to load, to join, or to hand over
  kFailed,        ///< it reported that it cannot go on
  kUnreachable,   ///< it lives, but other workers cannot reach it
  kWrongResult,   ///< an audit has found that what it computes is wrong
};

/// A worker that was evicted. Workers that leave in order are not.
struct Eviction {
  std::uint64_t number = 0;  ///< 1 for the first that this trainer has seen
  WorkerId worker;
  StageIndex stage;
  EvictionCause cause{};
  std::string text;  ///< for people
  double time = 0;   ///< Unix seconds, by the trainer's clock
};

/// Counts of events, since this trainer's process began.
struct JobCounts {
  std::uint64_t evictions = 0;         ///< workers that were evicted
  std::uint64_t leaves = 0;            ///< workers that handed over and left, moves not counted
  std::uint64_t moves = 0;             ///< between stages, begun
  std::uint64_t joins = 0;             ///< of workers that serve since then
  std::uint64_t recoveries = 0;        ///< evictions of members after which a step was committed
  std::uint64_t rollbacks = 0;         ///< generations that were begun because a stage was lost
  std::uint64_t replays = 0;           ///< contributions that went with a worker and were redone
  std::uint64_t revocations = 0;       ///< microbatches taken from a worker that made no progress
  std::uint64_t audits = 0;            ///< microbatches that were audited, with any result
  std::uint64_t audits_wrong = 0;      ///< of these: a worker was found to be wrong
  std::uint64_t audits_undecided = 0;  ///< of these: nobody could tell
};

/// The newest checkpoint that this trainer has published or has begun with.
struct CheckpointStatus {
  Version version;             ///< 0: none
  double time = 0;             ///< Unix seconds; 0: not known (of a run before)
  std::uint64_t failures = 0;  ///< since the last one that was written
  std::string error;           ///< of the last try, if it failed
};

/// The model for decisions about the balance of the stages (BalanceModel), as this job measures it.
struct BalanceStatus {
  double state_load_seconds = 0;
  double changes_per_worker_second = 0;
  std::vector<StageMove> moving;  ///< workers that leave for another stage, or are on their way
  bool by_operator = false;       ///< an operator, heard lately, decides instead of the trainer
  /// With pipeline.surviveRegionLoss, for people: which stages are in one region alone, and why.
  std::string one_region;
};

enum class JobState : std::uint8_t {
  kUnknown,  ///< a word of another version of the program
  kWaiting,  ///< for workers
  kTakingOver,
  kLoading,
  kTraining,
  kFinishing,
  kSucceeded,
  kFailed,
  kSuperseded,  ///< a trainer of a higher term has taken over
};

/// What the workers of two regions exchange (Heartbeat::exchanged).
struct RegionTraffic {
  std::string a, b;             ///< the regions, in order
  std::uint64_t bytes = 0;      ///< since this trainer began
  double bytes_per_second = 0;  ///< over about a minute
  bool operator==(const RegionTraffic&) const = default;
};

/// trainer → observer.
struct JobStatus {
  JobState state{};
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
  std::string waiting_for;  ///< the workers or storage that the job waits for, for people; or empty
  FailureClass failure_class = FailureClass::kNone;  ///< kNone: not failed
  std::vector<WorkerId> spares;                      ///< without a stage yet
  std::vector<Eviction> evicted;  ///< the last ones, oldest first (a bounded number)
  CheckpointStatus checkpoint;
  JobCounts counts;
  BalanceStatus balance;
  std::uint64_t leader_term = 0;       ///< highest of Direct; 0: none
  std::uint64_t retired = 0;           ///< numbers of workers that this trainer knows to be retired
  std::vector<RegionTraffic> traffic;  ///< of the pairs that have any, sorted
};

/// Whether this is an operator, which may direct; its certificate says so (net::IdentityUri).
inline bool IsOperator(const WorkerId& id) {
  return id.value == "operator" || id.value.starts_with("operator/");
}

/// Whether this is an operator or an observer: workers do not talk to them.
inline bool IsOnlooker(const WorkerId& id) {
  return IsOperator(id) || id.value == "observer" || id.value.starts_with("observer/");
}

/// operator → trainer: which workers shall leave, which shall serve another stage, and which are
/// gone. Fenced by the term of the operator's lease: of two operators that believe they lead, the
/// one with the later term counts.
struct Direct {
  std::uint64_t leader_term = 0;  ///< of the operator's lease (its transitions), above 0
  std::uint64_t number = 0;       ///< of this message, for the reply
  std::vector<WorkerId> drain;    ///< hand over what they have and end; for good
  std::vector<StageMove> moves;   ///< a worker without a stage is placed, another moves
  Retired retired;                ///< whose pods are no more; default: nothing is said of them
};

/// trainer → operator.
struct DirectReply {
  std::uint64_t number = 0;       ///< of the Direct
  bool accepted = false;          ///< the orders are carried out, except for those that `why` names
  std::string why;                ///< the orders not carried out, for people; empty: none
  std::uint64_t leader_term = 0;  ///< the highest that was seen
};

}  // namespace swarm::protocol

namespace swarm {

template <>
struct EnumNames<protocol::WorkerState> {
  using E = protocol::WorkerState;
  static constexpr auto kNames = NameTable<E>({
      {E::kLoading, "Loading"},
      {E::kJoining, "Joining"},
      {E::kReady, "Ready"},
      {E::kLeaving, "Leaving"},
      {E::kMoving, "Moving"},
  });
};

template <>
struct EnumNames<protocol::EvictionCause> {
  using E = protocol::EvictionCause;
  static constexpr auto kNames = NameTable<E>({
      {E::kUnknown, ""},
      {E::kDisconnected, "Disconnected"},
      {E::kSilent, "Silent"},
      {E::kRestarted, "Restarted"},
      {E::kStuck, "Stuck"},
      {E::kUnresponsive, "Unresponsive"},
      {E::kWrongState, "WrongState"},
      {E::kLate, "Late"},
      {E::kFailed, "Failed"},
      {E::kUnreachable, "Unreachable"},
      {E::kWrongResult, "WrongResult"},
  });
};

template <>
struct EnumNames<protocol::JobState> {
  using E = protocol::JobState;
  static constexpr auto kNames = NameTable<E>({
      {E::kUnknown, ""},
      {E::kWaiting, "Waiting"},
      {E::kTakingOver, "TakingOver"},
      {E::kLoading, "Loading"},
      {E::kTraining, "Training"},
      {E::kFinishing, "Finishing"},
      {E::kSucceeded, "Succeeded"},
      {E::kFailed, "Failed"},
      {E::kSuperseded, "Superseded"},
  });
};

}  // namespace swarm
