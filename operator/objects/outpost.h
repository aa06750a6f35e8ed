// A job's objects in another cluster than its own: its outpost there. The job cannot own them, so a
// ConfigMap does, and the satellite deletes that one when the job is gone. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "operator/objects/job_view.h"

namespace swarm::objects {

/// The other clusters in which the job has pools.
std::set<std::string> ClustersOf(const api::Spec& spec);

/// Those that the status of a SwarmJob names, as the server has it. Never throws.
std::set<std::string> ClustersOfStatus(const nlohmann::json& job);

/// The ConfigMap that owns the others.
nlohmann::json BuildOutpost(const JobView& view);

/// What the pods in this cluster need, owned by the ConfigMap with this UID: the names of the
/// trainer and of the workers, the NetworkPolicy, and the PodDisruptionBudget. The trainer is in
/// the job's own cluster, at `trainer_address`, an IP address; empty: it has none now.
std::vector<nlohmann::json> BuildOutpostParts(const JobView& view, const std::string& cluster,
                                              const std::string& outpost_uid,
                                              const std::string& trainer_address);

/// Gives an object that a builder has made for the job's own cluster to the outpost.
void OwnByOutpost(const JobView& view, const std::string& outpost_uid, nlohmann::json* object);

/// Turns what another cluster's API server says about a pod or a node into what this operator
/// reads: the job owns its pods, and nodes are called CLUSTER/NODE. Never throw.
void LocalizePod(const std::string& cluster, nlohmann::json* pod);
void LocalizeNode(const std::string& cluster, nlohmann::json* node);

/// The cluster of such a pod; empty: the job's own. No API server can forge it.
std::string ClusterOf(const nlohmann::json& pod);
/// The cluster of a node's name as LocalizePod makes it, and the name there.
struct NodeAt {
  std::string cluster, name;
};
NodeAt ParseNode(const std::string& name);

}  // namespace swarm::objects
