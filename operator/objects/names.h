// The names, labels and ports of a job's objects. They are part of what users see, and of what a
// later version of the operator finds in the cluster: do not change them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace swarm::objects {

inline constexpr std::string_view kApiVersion = "swarmjob.dev/v1alpha1";
inline constexpr std::string_view kKind = "SwarmJob";

inline constexpr const char* kJobLabel = "swarmjob.dev/job";
inline constexpr const char* kRoleLabel = "swarmjob.dev/role";
inline constexpr const char* kPoolLabel = "swarmjob.dev/pool";
inline constexpr const char* kOrdinalLabel = "swarmjob.dev/ordinal";
inline constexpr const char* kTermLabel = "swarmjob.dev/term";
inline constexpr const char* kWorkerRole = "worker";
inline constexpr const char* kTrainerRole = "trainer";
/// Of a pod template: the device a worker computes on, cpu or cuda:N, where the resources of its
/// pool do not tell.
inline constexpr const char* kDeviceAnnotation = "swarmjob.dev/device";
/// Of what is made for a job: a hash of what the operator wanted of it.
inline constexpr const char* kAppliedAnnotation = "swarmjob.dev/applied";
/// Of a node: the trainer keeps off it, as off the clouds' own labels for spot nodes.
inline constexpr const char* kSpotLabel = "swarmjob.dev/spot";

inline constexpr int kWirePort = 7000;
inline constexpr int kMetricsPort = 9090;

std::string WorkerName(const std::string& job, std::uint64_t ordinal);   // JOB-w7
std::string TrainerPodName(const std::string& job, std::uint64_t term);  // JOB-trainer-3
std::string TrainerServiceName(const std::string& job);                  // JOB-trainer
std::string WorkersServiceName(const std::string& job);                  // JOB-workers
std::string ConfigMapName(const std::string& job);                       // JOB-job
std::string AuthoritySecretName(const std::string& job);                 // JOB-ca
std::string IdentitiesSecretName(const std::string& job);                // JOB-identities
std::string DisruptionBudgetName(const std::string& job);                // JOB-workers
std::string NetworkPolicyName(const std::string& job);                   // JOB

/// The number in a label, as std::to_string wrote it; nothing if it is none.
std::optional<std::uint64_t> ParseNumber(std::string_view text);

/// host:port at which a job's workers and the operator reach its trainer.
std::string TrainerAddress(const std::string& ns, const std::string& job);

/// Label selectors as text: all pods of a job, and its workers (status.selector).
std::string PodSelector(const std::string& job);
std::string WorkerSelector(const std::string& job);
/// All pods of all jobs: what the operator watches.
std::string AnyPodSelector();

}  // namespace swarm::objects
