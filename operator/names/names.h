// The names, labels, annotations and ports of the objects that belong to a job. Users see them, and
// a later version of the operator finds its objects by them: do not change them.
//
// This is the only place that composes such a name or takes one apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::names {

inline constexpr std::string_view kApiVersion = "swarmjob.dev/v1alpha1";
inline constexpr std::string_view kKind = "SwarmJob";

inline constexpr const char* kJobLabel = "swarmjob.dev/job";
inline constexpr const char* kRoleLabel = "swarmjob.dev/role";
inline constexpr const char* kPoolLabel = "swarmjob.dev/pool";
inline constexpr const char* kOrdinalLabel = "swarmjob.dev/ordinal";
inline constexpr const char* kTermLabel = "swarmjob.dev/term";
/// Of a pod with several workers: how many.
inline constexpr const char* kWorkersLabel = "swarmjob.dev/workers";
inline constexpr const char* kWorkerRole = "worker";
inline constexpr const char* kTrainerRole = "trainer";
/// Of each object in another cluster than the job's own: the UID of the job, which cannot own it
/// there.
inline constexpr const char* kJobUidLabel = "swarmjob.dev/job-uid";
/// Of the object that owns a job's objects in another cluster: "true".
inline constexpr const char* kOutpostLabel = "swarmjob.dev/outpost";
/// Of a worker's pod that makes its key itself and gets its certificate by a proof: kByProof.
/// Others have theirs from a Secret.
inline constexpr const char* kIdentityLabel = "swarmjob.dev/identity";
inline constexpr const char* kByProof = "proof";
/// An annotation of a pod template: the devices on which the workers of a pod compute, "cpu" or
/// "cuda:0,cuda:1", a worker on each. It overrides what the resources of the pool say.
inline constexpr const char* kDeviceAnnotation = "swarmjob.dev/device";
/// An annotation of each object that the operator applies: a hash of the object as the operator
/// wanted it.
inline constexpr const char* kAppliedAnnotation = "swarmjob.dev/applied";
/// An annotation of a trainer's pod: a hash of the part of the manifest that it was made of.
inline constexpr const char* kMadeOfAnnotation = "swarmjob.dev/made-of";
/// An annotation of a job. When its text changes, new pods of the job run the operator's image of
/// today.
inline constexpr const char* kUpdateImageAnnotation = "swarmjob.dev/update-image";
/// Labels of a job by which Kueue knows its queue (a LocalQueue of its namespace) and its priority.
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr const char* kQueuePriorityLabel = "kueue.x-k8s.io/priority-class";
/// A label by which MultiKueue names the Workload of a job that it has copied from another cluster.
inline constexpr const char* kPrebuiltWorkloadLabel = "kueue.x-k8s.io/prebuilt-workload-name";
/// spec.managedBy of a job that MultiKueue runs in another cluster.
inline constexpr const char* kMultiKueue = "kueue.x-k8s.io/multikueue";
/// A label of Kueue's on the Workload of a job: the job's UID.
inline constexpr const char* kQueueJobLabel = "kueue.x-k8s.io/job-uid";
/// A label of a spot node. The trainer is not scheduled on a node with this label, nor on one with
/// a cloud's own label for spot nodes.
inline constexpr const char* kSpotLabel = "swarmjob.dev/spot";
/// The labels of a node that name its operating system and its processors, as images do.
inline constexpr const char* kOsLabel = "kubernetes.io/os";
inline constexpr const char* kArchLabel = "kubernetes.io/arch";
/// The label by which the scheduler tells nodes apart.
inline constexpr const char* kHostnameLabel = "kubernetes.io/hostname";

inline constexpr int kWirePort = 7000;
inline constexpr int kMetricsPort = 9090;
/// Of the page that a trainer serves.
inline constexpr int kPagePort = 9091;
/// The workers of a pod have kWirePort and the ports behind it.
inline constexpr int kPodWorkersMax = 64;

enum class PodRole { kWorker, kTrainer };

/// The value of kRoleLabel, and the name of the pod's main container.
const char* RoleName(PodRole role);

/// The name of a pod. `number` is a worker's ordinal or a trainer's term: JOB-w7, JOB-trainer-3.
std::string PodName(const std::string& job, PodRole role, std::uint64_t number);

/// What the names of a job's workers have in common: JOB-w.
std::string WorkerPrefix(const std::string& job);

/// The names of the workers in a pod: one is called as the pod, several JOB-w7-0, JOB-w7-1, ...
std::vector<std::string> WorkersOf(const std::string& pod, std::uint64_t workers);
/// The pod in which a worker of this name is one of several; none: it is called as its pod.
std::optional<std::string_view> PodOfSeveral(std::string_view worker);

std::string TrainerServiceName(const std::string& job);    // JOB-trainer
std::string WorkersServiceName(const std::string& job);    // JOB-workers
std::string ConfigMapName(const std::string& job);         // JOB-job
std::string AuthoritySecretName(const std::string& job);   // JOB-ca
std::string IdentitySecretName(const std::string& pod);    // POD-identity
std::string DisruptionBudgetName(const std::string& job);  // JOB-workers
std::string NetworkPolicyName(const std::string& job);     // JOB
std::string OutpostName(const std::string& job);           // JOB-outpost
std::string TrainerEndpointsName(const std::string& job);  // JOB-trainer
std::string WorkloadName(const std::string& job);          // swarmjob-JOB
/// The Secret with the tokens by which machines join the job.
std::string TokensSecretName(const std::string& job);  // JOB-tokens

/// The pod sets of a Workload: the trainer, and the workers of a pool.
inline constexpr const char* kTrainerPodSet = "trainer";
std::string WorkersPodSet(const std::string& pool);  // workers-POOL
/// The pool of a pod set of workers; none: it is another one's.
std::optional<std::string> PoolOfPodSet(std::string_view pod_set);

/// The Secret JOB-identities that pods of earlier operators share. Its keys are NAME.crt and
/// NAME.key: "w7" for the worker JOB-w7, "trainer" for every trainer.
std::string SharedIdentitiesName(const std::string& job);
std::string SharedIdentityName(PodRole role, std::uint64_t number);

/// Reads the number in a label, as std::to_string wrote it. None: the text is not such a number.
std::optional<std::uint64_t> ParseNumber(std::string_view text);

/// The cluster of the SwarmJobs, beside those of satellites.
inline constexpr const char* kHomeCluster = "home";

/// The name of a pod of workers in its cluster, which a gateway looks up there.
std::string WorkerHost(const std::string& ns, const std::string& job, const std::string& pod);
/// host:port at which the workers of a job, and the operator, reach its trainer.
std::string TrainerAddress(const std::string& ns, const std::string& job);

/// Label selectors as text: all pods of a job, the worker pods of a job (status.selector), and all
/// pods of all jobs (what the operator watches).
std::string PodSelector(const std::string& job);
std::string WorkerSelector(const std::string& job);
std::string AnyPodSelector();

}  // namespace swarm::names
