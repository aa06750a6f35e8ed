// What the operator sees of one job, at one moment: the input of its decisions. Plain values; who
// reads Kubernetes' objects (operator/objects) and who hears the trainer fills them in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/status.h"
#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/protocol/messages/message.h"

namespace swarm::plan {

using api::WallTime;

/// The SwarmJob itself.
struct ObservedJob {
  std::string name;
  std::string uid;
  std::uint64_t generation = 0;
  bool deleted = false;              ///< has a deletion time: Kubernetes removes what we own
  std::optional<api::SwarmJob> job;  ///< none: refused
  std::vector<std::string> refused;  ///< why it cannot be run, a sentence each; empty iff `job`
  api::SwarmJobStatus status;        ///< as it stands there; of a new job as constructed
};

enum class PodRole { kWorker, kTrainer };
enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

/// How the main container (of the role's name) ended.
struct ContainerEnd {
  int exit_code = 0;
  int signal = 0;       ///< what ended it, if the runtime says so; 137 and 143 are not translated
  std::string reason;   ///< "OOMKilled", "Error", "Completed", "ContainerStatusUnknown"
  std::string message;  ///< its last words (terminationMessagePolicy: FallbackToLogsOnError)
  std::optional<WallTime> time;
  bool operator==(const ContainerEnd&) const = default;
};

/// A pod of ours: controlled by this SwarmJob's UID. Others are not shown.
struct ObservedPod {
  std::string name;
  std::string uid;
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;  ///< a worker's ordinal, a trainer's term
  std::string pool;          ///< of a worker
  WallTime created{};
  std::optional<WallTime> deleted;  ///< its deletionTimestamp, if it has one
  PodPhase phase = PodPhase::kPending;
  std::string reason;   ///< status.reason: "Evicted", "Terminated", "NodeShutdown", ...
  std::string message;  ///< status.message
  bool ready = false;   ///< its Ready condition
  bool gated = false;   ///< has scheduling gates: somebody holds it back, capacity is not asked for
  /// Since when it has asked for a node: its creation, or when its last gate was seen to be gone.
  WallTime waiting_since{};
  std::string node;                   ///< empty: not bound to one yet
  std::optional<WallTime> scheduled;  ///< when it was bound (its PodScheduled condition)
  /// The node's UID when the pod was first seen on it; empty where nobody remembers.
  std::string node_uid;
  std::optional<ContainerEnd> end;  ///< the main container has ended
  std::string waiting_reason;       ///< the main container waits: "ErrImagePull", ...
  std::string waiting_message;
  /// Of a DisruptionTarget condition that is True: "EvictionByEvictionAPI", ...; empty: none.
  std::string disruption;
  std::string disruption_message;
  bool operator==(const ObservedPod&) const = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;
  bool operator==(const Taint&) const = default;
};

struct NodeCondition {
  std::string type;
  std::string status;  ///< "True", "False", "Unknown"
  std::string reason;
  std::string message;
  bool operator==(const NodeCondition&) const = default;
};

struct ObservedNode {
  std::string uid;
  WallTime created{};
  bool deleted = false;  ///< has a deletion time
  std::vector<Taint> taints;
  std::vector<NodeCondition> conditions;  ///< all, also Ready
  bool operator==(const ObservedNode&) const = default;
};

/// What a job needs besides pods.
enum class Child {
  kAuthority,       ///< Secret JOB-ca
  kIdentities,      ///< Secret JOB-identities
  kConfig,          ///< ConfigMap JOB-job
  kTrainerService,  ///< Service JOB-trainer
  kWorkersService,  ///< Service JOB-workers
  kBudget,          ///< PodDisruptionBudget JOB-workers
  kNetworkPolicy,   ///< NetworkPolicy JOB
};
inline constexpr Child kChildren[] = {
    Child::kAuthority,      Child::kIdentities, Child::kConfig,       Child::kTrainerService,
    Child::kWorkersService, Child::kBudget,     Child::kNetworkPolicy};

/// A pod that this operator has tried to create and that is not to be seen.
struct Creation {
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;  ///< ordinal or term
  std::string pool;          ///< of a worker
  /// The API server said no, or was not asked: the pod does not exist. Else nobody knows: no
  /// answer, or a server's error.
  bool refused = false;
  bool operator==(const Creation&) const = default;
};

/// A number in the status whose pod this operator has neither seen nor tried to create. Whoever
/// reserved it, an operator before this one or one beside it, may be about to.
struct Reservation {
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;  ///< ordinal or term
  WallTime known_since{};    ///< when this operator first saw it in the status
  bool operator==(const Reservation&) const = default;
};

/// The last creation of a pod of this job that the API server refused.
struct Refusal {
  WallTime time{};
  std::uint64_t attempts = 1;  ///< decisions in a row whose creations were refused
  /// kResourceExhausted: a quota; kInvalidArgument: the pod is malformed; kPermissionDenied: by
  /// an admission rule or for lack of rights; kFailedPrecondition: the namespace goes away.
  StatusCode code = StatusCode::kPermissionDenied;
  std::string message;
  bool operator==(const Refusal&) const = default;
};

/// What the job's trainer last said.
struct TrainerView {
  protocol::JobStatus status;
  WallTime heard{};  ///< when, by our clock
};

/// Everything a decision depends on.
///
/// `pods` holds what this operator has created since, even where the watch has not shown it yet,
/// and `job.status` is what it has last written, or newer: who decides upon older ones must fail to
/// write (resourceVersion).
struct Observed {
  WallTime now{};
  ObservedJob job;
  std::vector<ObservedPod> pods;
  std::map<std::string, ObservedNode> nodes;  ///< by name; at least those that pods are bound to
  bool nodes_known = true;   ///< false: this operator may not read nodes (namespaced mode)
  std::set<Child> children;  ///< those that are there, ours, and as they should be
  std::optional<TrainerView> trainer;
  std::vector<Creation> creations;
  std::optional<Refusal> refusal;  ///< none: the last creation was not refused
  std::vector<Reservation> unseen;
  std::optional<WallTime> moved;           ///< when this operator last told the trainer of a move
  std::optional<WallTime> status_written;  ///< when it last wrote this job's status
  std::uint64_t leader_term = 0;  ///< of its lease, above 0; fences commands to the trainer
};

}  // namespace swarm::plan
