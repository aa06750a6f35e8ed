#include "operator/objects/outpost.h"

#include <nlohmann/json.hpp>

#include "operator/names/names.h"
#include "operator/objects/build.h"
#include "operator/objects/trim.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

/// A member of cached objects beside metadata, spec and status, as Kubernetes' objects have none.
constexpr const char* kCluster = "cluster";

json OutpostMetadata(const JobView& view, const std::string& name) {
  json metadata = JobMetadata(view, name);
  metadata.erase("ownerReferences");
  metadata["labels"][names::kJobUidLabel] = view.uid;
  return metadata;
}

/// A service of this name without pods, whose address the slice says.
json BuildTrainerName(const JobView& view) {
  json service = BuildTrainerService(view, 0);
  service["spec"].erase("selector");
  return service;
}

json BuildTrainerSlice(const JobView& view, const std::string& address) {
  const std::string service = names::TrainerServiceName(view.name);
  const bool v6 = address.find(':') != address.npos;
  json metadata = JobMetadata(view, names::TrainerEndpointsName(view.name));
  metadata["labels"]["kubernetes.io/service-name"] = service;
  metadata["labels"]["endpointslice.kubernetes.io/managed-by"] = "swarm-operator";
  const auto port = [](const char* name, int number) -> json {
    return {{"name", name}, {"port", number}, {"protocol", "TCP"}};
  };
  json endpoints = json::array();
  if (!address.empty()) {
    endpoints.push_back({{"addresses", json::array({address})}, {"conditions", {{"ready", true}}}});
  }
  return {{"apiVersion", "discovery.k8s.io/v1"},
          {"kind", "EndpointSlice"},
          {"metadata", std::move(metadata)},
          {"addressType", v6 ? "IPv6" : "IPv4"},
          {"endpoints", std::move(endpoints)},
          {"ports",
           json::array({port("wire", names::kWirePort), port("metrics", names::kMetricsPort)})}};
}

std::string TextIn(const json& object, const json::json_pointer& place) {
  const bool there = object.contains(place) && object[place].is_string();
  return there ? object[place].get<std::string>() : "";
}

}  // namespace

std::set<std::string> ClustersOf(const api::Spec& spec) {
  std::set<std::string> clusters;
  for (const api::Pool& pool : spec.workers.pools) {
    if (!pool.cluster.empty()) clusters.insert(pool.cluster);
  }
  return clusters;
}

std::set<std::string> ClustersOfStatus(const json& job) {
  const json::json_pointer place("/status/clusters");
  std::set<std::string> clusters;
  if (!job.contains(place) || !job[place].is_array()) return clusters;
  for (const json& each : job[place]) {
    if (std::string name = TextIn(each, json::json_pointer("/name")); !name.empty()) {
      clusters.insert(std::move(name));
    }
  }
  return clusters;
}

json BuildOutpost(const JobView& view) {
  json metadata = OutpostMetadata(view, names::OutpostName(view.name));
  metadata["labels"][names::kOutpostLabel] = "true";
  return {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", std::move(metadata)}};
}

std::vector<json> BuildOutpostParts(const JobView& view, const std::string& cluster,
                                    const std::string& outpost_uid,
                                    const std::string& trainer_address) {
  std::vector<json> parts = {BuildTrainerName(view), BuildTrainerSlice(view, trainer_address),
                             BuildWorkersService(view), BuildNetworkPolicy(view),
                             BuildDisruptionBudget(view, cluster)};
  for (json& part : parts) OwnByOutpost(view, outpost_uid, &part);
  return parts;
}

void OwnByOutpost(const JobView& view, const std::string& outpost_uid, json* object) {
  json& metadata = (*object)["metadata"];
  metadata["labels"][names::kJobUidLabel] = view.uid;
  // To block the deletion of its owner, the satellite would need the right to change ConfigMaps.
  metadata["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                              {"kind", "ConfigMap"},
                                              {"name", names::OutpostName(view.name)},
                                              {"uid", outpost_uid},
                                              {"controller", true}}});
}

void LocalizePod(const std::string& cluster, json* pod) {
  using Place = json::json_pointer;
  const std::string job_uid = TextIn(*pod, Place() / "metadata" / "labels" / names::kJobUidLabel);
  if (!pod->contains(Place("/metadata/name"))) return;
  (*pod)[kCluster] = cluster;
  (*pod)["metadata"]["ownerReferences"] = json::array({{{"uid", job_uid}, {"controller", true}}});
  if (const std::string node = TextIn(*pod, Place("/spec/nodeName")); !node.empty()) {
    (*pod)["spec"]["nodeName"] = cluster + "/" + node;
  }
}

void LocalizeNode(const std::string& cluster, json* node) {
  const std::string name = TextIn(*node, json::json_pointer("/metadata/name"));
  if (!name.empty()) (*node)["metadata"]["name"] = cluster + "/" + name;
}

std::string ClusterOf(const json& pod) { return TextIn(pod, json::json_pointer() / kCluster); }

NodeAt ParseNode(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

}  // namespace swarm::objects
