// What the operator sees of one job at one moment: the input of its decisions. Plain values.
// operator/objects reads them from Kubernetes' objects; operator/controller adds what it remembers
// and what the trainer says.
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
#include "operator/names/names.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::plan {

using api::WallTime;
using names::PodRole;

/// The SwarmJob itself.
struct ObservedJob {
  std::string name;
  std::string uid;
  std::uint64_t generation = 0;
  bool deleted = false;              ///< has a deletion time: Kubernetes deletes the job's objects
  std::optional<api::SwarmJob> job;  ///< none: the job cannot be run
  std::vector<std::string> refused;  ///< why not, one sentence each; empty if and only if `job`
  std::optional<api::PlanChoice> choice;  ///< what the planner chose of it; `job` has it in it
  std::string trainer_part;    ///< a hash of what of the manifest a trainer's pod is made of
  bool replicas_open = false;  ///< the manifest leaves the number of workers open; `job` has one
  api::SwarmJobStatus status;  ///< the observed one; of a new job a default one
};

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed, kUnknown };

/// How the main container ended. It has the name of the role.
struct ContainerEnd {
  int exit_code = 0;
  int signal = 0;  ///< the signal that ended it, if the runtime reports it; exit codes above 128
                   ///< are not translated
  std::string reason;   ///< "OOMKilled", "Error", "Completed", "ContainerStatusUnknown"
  std::string message;  ///< its last output (terminationMessagePolicy: FallbackToLogsOnError)
  std::optional<WallTime> time;
  bool operator==(const ContainerEnd&) const = default;
};

/// A pod that is controlled by this SwarmJob's UID. Other pods are left out.
struct ObservedPod {
  /// Its cluster has been away since this operator began, so it is known from the status alone
  /// (operator/plan/places.h): it is taken for one that runs, and nothing is done to it.
  bool unseen = false;
  std::string name;
  std::string uid;
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;   ///< a worker's ordinal, a trainer's term
  std::string pool;           ///< of a worker
  std::string cluster;        ///< empty: the job's own
  std::string made_of;        ///< of a trainer: ObservedJob::trainer_part then; empty: not known
  std::uint64_t workers = 1;  ///< that it has, if it is no trainer's
  WallTime created{};
  /// Mounts the Secret that pods of earlier operators share, instead of one of its own.
  bool shares_identities = false;
  /// Makes its key itself, and gets its certificate by a proof (operator/plan/proof.h).
  bool proves_itself = false;
  std::optional<WallTime> deleted;  ///< its deletionTimestamp, if it has one
  PodPhase phase = PodPhase::kPending;
  std::string reason;   ///< status.reason: "Evicted", "Terminated", "NodeShutdown", ...
  std::string message;  ///< status.message
  bool ready = false;   ///< its Ready condition
  bool gated = false;   ///< has scheduling gates, so it does not ask for a node yet
  /// Since when it has asked for a node: its creation, or the time when the operator first saw it
  /// without gates.
  WallTime waiting_since{};
  std::string node;  ///< empty: not bound to one yet; in another cluster: CLUSTER/NODE
  std::optional<WallTime> scheduled;  ///< when it was bound (its PodScheduled condition)
  /// Why it has no node, in the scheduler's words: "Unschedulable", "SchedulingGated"; empty: it
  /// has one, or the scheduler has not looked at it yet.
  std::string unscheduled_reason;
  std::string unscheduled_message;
  /// The node's UID when the operator first saw the pod on it; empty: not known.
  std::string node_uid;
  std::optional<ContainerEnd> end;  ///< the main container has ended
  std::string waiting_reason;       ///< why the main container waits: "ErrImagePull", ...
  std::string waiting_message;
  /// The reason of a DisruptionTarget condition that is True: "EvictionByEvictionAPI", ...; empty:
  /// there is no such condition.
  std::string disruption;
  std::string disruption_message;
  bool operator==(const ObservedPod&) const = default;
};

/// Whether its program has, as far as anybody has said.
inline bool HasEnded(const ObservedPod& pod) {
  return pod.end || pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
}

/// When it was bound to its node, as far as is known.
inline WallTime BoundAt(const ObservedPod& pod) { return pod.scheduled.value_or(pod.created); }

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
  std::string hostname;  ///< its label kubernetes.io/hostname; empty: it has none
  WallTime created{};
  bool deleted = false;  ///< has a deletion time
  std::vector<Taint> taints;
  std::vector<NodeCondition> conditions;  ///< all of them, Ready included
  bool operator==(const ObservedNode&) const = default;
};

/// An object that a job needs besides its pods. operator/names has the names.
enum class Child {
  kAuthority,       ///< Secret with the certificate authority of the job
  kIdentities,      ///< Secrets with the certificates of its pods, one for each
  kConfig,          ///< ConfigMap with the manifest for the trainer
  kTrainerService,  ///< Service
  kWorkersService,  ///< Service, where the cluster has a gateway
  kBudget,          ///< PodDisruptionBudget
  kNetworkPolicy,   ///< NetworkPolicy
  kOutposts,        ///< what its pods in other clusters need there
};
inline constexpr Child kChildren[] = {
    Child::kAuthority,      Child::kIdentities, Child::kConfig,        Child::kTrainerService,
    Child::kWorkersService, Child::kBudget,     Child::kNetworkPolicy, Child::kOutposts};

/// A pod that this operator has tried to create and that is not visible yet.
struct Creation {
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;  ///< ordinal or term
  std::string pool;          ///< of a worker
  /// True: the API server refused it, or the operator did not ask, so the pod does not exist.
  /// False: it may exist, because there was no answer or a server error.
  bool refused = false;
  /// The API server said that it exists, at `time`: soon it is visible, or it is gone again.
  bool made = false;
  WallTime time{};
  bool operator==(const Creation&) const = default;
};

/// A reserved number whose pod this operator has neither seen nor tried to create. Another
/// operator, an earlier or a concurrent one, reserved it and may be about to create the pod.
struct Reservation {
  PodRole role = PodRole::kWorker;
  std::uint64_t number = 0;  ///< ordinal or term
  WallTime known_since{};    ///< when this operator first saw it in the status
  bool operator==(const Reservation&) const = default;
};

/// For how long a pod of workers held its machine.
struct Tenure {
  std::string pool;
  std::uint64_t workers = 1;
  WallTime from{};
  std::optional<WallTime> until;  ///< none: it holds it still
  bool operator==(const Tenure&) const = default;
};

/// The last refused creation of a pod of this job.
struct Refusal {
  WallTime time{};
  std::uint64_t attempts = 1;  ///< decisions in a row whose creations were refused
  /// kResourceExhausted: a quota; kInvalidArgument: the pod is malformed; kPermissionDenied: an
  /// admission rule, or missing rights; kFailedPrecondition: the namespace is being deleted.
  StatusCode code = StatusCode::kPermissionDenied;
  std::string message;
  bool operator==(const Refusal&) const = default;
};

/// The job's Workload, by which Kueue gives quota to all of its pods at once.
struct ObservedWorkload {
  std::string uid;
  std::string version;     ///< its resourceVersion
  bool deleted = false;    ///< has a deletion time
  bool outdated = false;   ///< asks another queue, or for other pods, apart from their number
  bool active = true;      ///< false: somebody wants it to have no quota
  bool has_quota = false;  ///< QuotaReserved
  bool admitted = false;   ///< has quota, and all checks of the queue agree
  bool finished = false;
  bool pods_ready = false;
  bool evicted = false;  ///< must give its quota back, or has done so and waits again
  std::string words;     ///< Kueue's own about why it is not admitted; may be empty
  /// The worker pods that it asks for, by pool. A pool without any is left out.
  std::map<std::string, std::uint64_t> pods;
  bool operator==(const ObservedWorkload&) const = default;
};

/// The queue of a job that has one, or had one.
struct ObservedQueue {
  std::string name;        ///< empty: the job has none any more
  std::string unreadable;  ///< why the operator cannot read Workloads; empty: it can
  std::string refusal;     ///< why the last write of the Workload was refused; empty: it was not
  /// The Workload is another's, who has named it in the job: MultiKueue of another cluster. The
  /// operator tells it the news, and neither writes nor deletes it.
  bool prebuilt = false;
  std::optional<ObservedWorkload> workload;
};

/// The last status that the job's trainer sent.
struct TrainerView {
  protocol::JobStatus status;
  WallTime heard{};  ///< when it arrived, by the operator's clock
};

/// A cluster beside the job's own that has pools or pods of the job.
struct ObservedCluster {
  bool reachable = false;
  WallTime since{};  ///< when this operator first saw it so
  bool operator==(const ObservedCluster&) const = default;
};

/// Everything a decision depends on.
///
/// `pods` may lack a pod that exists: one that this operator has created is then in `creations`,
/// and the others are asked for by name before a decision takes them for gone (InDoubt).
/// `job.status` is what this operator wrote last, or newer; the write of a decision on an
/// older status fails (resourceVersion).
struct Observed {
  WallTime now{};
  ObservedJob job;
  std::vector<ObservedPod> pods;
  std::map<std::string, ObservedNode> nodes;  ///< by name; at least the pods' nodes
  bool nodes_known = true;  ///< false: this operator may not read nodes (namespaced mode)
  api::ImageStatus image;   ///< this operator's own, and what the job's annotation says
  /// How many workers a new pod of a pool has; 1 for a pool that is not here.
  std::map<std::string, std::uint64_t> pod_sizes;
  /// The pools whose cluster cannot be reached now. They keep the pods that they have.
  std::set<std::string> unreachable_pools;
  std::map<std::string, ObservedCluster> clusters;  ///< by name; without the job's own
  std::set<Child> children;  ///< those that exist, belong to the job, and are correct
  std::optional<TrainerView> trainer;
  std::optional<ObservedQueue> queue;  ///< none: the job has no queue, and had none
  std::vector<Creation> creations;
  std::optional<Refusal> refusal;  ///< none: the last creation was not refused
  std::vector<Reservation> unseen;
  std::vector<Tenure> tenures;    ///< of visible pods, and of those that went since the last write
  std::optional<WallTime> moved;  ///< when this operator last ordered a move
  std::optional<WallTime> status_written;  ///< when it last wrote this job's status
  std::uint64_t leader_term = 0;           ///< of its lease, above 0; fences orders to the trainer
};

}  // namespace swarm::plan
