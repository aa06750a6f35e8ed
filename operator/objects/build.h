// The Kubernetes objects of a job as JSON. Pure: the same job gives the same objects, so they can
// be applied again and again.
//
// A pod is made of three layers: our defaults, over them the user's template and the pool, over
// them what the operator insists on (names, labels, command, ports, probes, restart policy, the
// mounts of job and identity). Lists of named things (containers, env, volumes, mounts by path) are
// merged item by item.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "operator/objects/job_view.h"

namespace swarm::objects {

/// What the operator's flags say about the pods of every job.
struct PodOptions {
  std::string worker_image;  ///< of both roles, where a template names none
};

/// Requires of every builder: `view.errors` is empty.
/// Errors of the two pods: kInvalidArgument, the template has another type where ours has a mapping
/// or a list; the message names the field.
Result<nlohmann::json> BuildWorkerPod(const JobView& view, std::uint64_t ordinal,
                                      const api::Pool& pool, const PodOptions& options);
/// `layout`: replicas of each stage that the trainer starts with.
Result<nlohmann::json> BuildTrainerPod(const JobView& view, std::uint64_t term,
                                       const std::vector<std::uint64_t>& layout,
                                       const PodOptions& options);

/// The manifest as the trainer reads it (key job.json), without what only Kubernetes needs: scaling
/// a job or changing a pool does not change it.
nlohmann::json BuildConfigMap(const JobView& view);

/// Leads to the trainer's pod of this term only: an earlier one that lives on somewhere cannot be
/// reached by a name.
nlohmann::json BuildTrainerService(const JobView& view, std::uint64_t term);
/// Headless.
nlohmann::json BuildWorkersService(const JobView& view);

/// Lets workers be evicted while more than the minimum, or all but one, are ready. Those that are
/// not ready may always be evicted.
nlohmann::json BuildDisruptionBudget(const JobView& view);

/// What may reach the job's pods: each other and the operator on the wire's port, anyone on that of
/// the metrics.
nlohmann::json BuildNetworkPolicy(const JobView& view);

/// metadata.ownerReferences of all objects of the job: they are deleted with it.
nlohmann::json OwnerReferences(const JobView& view);

/// metadata of an object that belongs to the job as a whole: name, namespace, labels, owner.
nlohmann::json JobMetadata(const JobView& view, const std::string& name);

}  // namespace swarm::objects
