// The Kubernetes objects of a job as JSON. Pure: the same job gives the same objects, so applying
// them again changes nothing.
//
// A pod has three layers. The lowest are the operator's defaults. The user's template and the pool
// override them. The highest are the operator's requirements: names, labels, command, ports,
// probes, restart policy, and the mounts of manifest and identity. Lists of named items
// (containers, env, volumes, mounts by path) are merged item by item.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "operator/objects/job_view.h"
#include "worker/enrol/proof.h"

namespace swarm::objects {

/// The operator's flags for the pods of all jobs. A job that has begun has an image of its own in
/// its status, which counts instead.
struct PodOptions {
  std::string worker_image;  ///< for both roles, unless a template names another
  /// What worker_image is for, OS/ARCHITECTURE: its pods go to such nodes, unless the template or
  /// the pool selects others. Empty: not known.
  std::string worker_platform;
  /// host:port at which each cluster's gateway is reached from the other clusters; that of the
  /// jobs' own is called kHomeCluster. Clusters that are not named have none.
  std::map<std::string, std::string> gateways;
  /// Where the pods of the cluster in question prove which ones they are, without their token file.
  /// None: home makes keys and certificates for them.
  std::optional<enrol::ProofPlace> proof = std::nullopt;
};

/// All builders require that `view.errors` is empty. The pods prefer other nodes than those that
/// `view.status` avoids.
///
/// Errors of the two pods: kInvalidArgument, the template has another type where the operator needs
/// a mapping or a list; the message names the field.
Result<nlohmann::json> BuildWorkerPod(const JobView& view, std::uint64_t ordinal,
                                      const api::Pool& pool, const PodOptions& options);
/// What the workers of a pod have, which share it equally.
struct PodShares {
  std::uint64_t workers = 1;       ///< one for each device
  bool on_device = false;          ///< they compute on accelerators
  std::uint64_t memory_bytes = 0;  ///< of each, without its device's; 0: the pod does not say
};
/// Of the pods that BuildWorkerPod makes for the pool; the defaults for a job whose pod cannot be
/// built.
PodShares SharesOfPod(const api::Spec& spec, const api::Pool& pool);
std::uint64_t WorkersOfPod(const api::Spec& spec, const api::Pool& pool);
/// `layout`: replicas of each stage when the trainer starts.
Result<nlohmann::json> BuildTrainerPod(const JobView& view, std::uint64_t term,
                                       const std::vector<std::uint64_t>& layout,
                                       const PodOptions& options);

/// The manifest for the trainer (key job.json), without the fields for Kubernetes only: scaling a
/// job or changing a pool does not change it. Also without fields that have their default: a
/// trainer of an earlier version does not know all of them.
nlohmann::json BuildConfigMap(const JobView& view);

/// Selects the trainer's pod of this term only, so an earlier trainer that still runs cannot be
/// reached by name.
nlohmann::json BuildTrainerService(const JobView& view, std::uint64_t term);
/// A headless service, by which a gateway finds a worker.
nlohmann::json BuildWorkersService(const JobView& view);

/// For the pods in one cluster; empty: the job's own. Allows the eviction of a pod of workers while
/// more than those of minReplicas, or all pods, are ready; pods count as the largest that the pools
/// make. Those that the status has as ready in other clusters count for this one, since Kubernetes
/// sees them not. A pod that is not ready may always be evicted.
nlohmann::json BuildDisruptionBudget(const JobView& view, const std::string& cluster = "");

/// Admits the job's pods and the operator to the port of the protocol, and all peers to the port of
/// the metrics. Of a job with pods in other clusters, all peers to both.
nlohmann::json BuildNetworkPolicy(const JobView& view);

/// The pod's volume with its certificate: a Secret, or a folder in memory that the pod fills.
inline constexpr const char* kIdentityVolume = "identity";
/// The volume with the token by which a pod proves which one it is.
inline constexpr const char* kProofVolume = "proof";

/// The Secret that this pod mounts, without its data. Kubernetes deletes it with the pod.
nlohmann::json BuildIdentitySecret(const JobView& view, const std::string& pod,
                                   const std::string& pod_uid);
/// A Secret of the job, without its data.
nlohmann::json BuildJobSecret(const JobView& view, const std::string& name);

/// metadata.ownerReferences of the objects of the job, so that Kubernetes deletes them with it.
nlohmann::json OwnerReferences(const JobView& view);

/// metadata of an object of the job: name, namespace, labels, owner.
nlohmann::json JobMetadata(const JobView& view, const std::string& name);

}  // namespace swarm::objects
