#include "operator/objects/build.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/parse.h"
#include "operator/names/names.h"
#include "operator/objects/outpost.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

json Object(const char* api_version, const char* kind, json metadata) {
  return {{"apiVersion", api_version}, {"kind", kind}, {"metadata", std::move(metadata)}};
}

json RoleLabels(const JobView& view, const char* role) {
  return {{names::kJobLabel, view.name}, {names::kRoleLabel, role}};
}

/// The ready workers in other clusters than this one.
std::uint64_t ReadyElsewhere(const api::SwarmJobStatus& status, const std::string& cluster) {
  std::uint64_t here = status.readyReplicas;
  for (const api::ClusterStatus& each : status.clusters) {
    if (each.name == cluster) return status.readyReplicas - std::min(each.readyReplicas, here);
    here -= std::min(each.readyReplicas, here);
  }
  return cluster.empty() ? status.readyReplicas - here : status.readyReplicas;
}

json Port(const char* name, int port) {
  return {{"name", name}, {"port", port}, {"targetPort", name}};
}

}  // namespace

json OwnerReferences(const JobView& view) {
  return json::array({{{"apiVersion", names::kApiVersion},
                       {"kind", names::kKind},
                       {"name", view.name},
                       {"uid", view.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

json JobMetadata(const JobView& view, const std::string& name) {
  const json labels = {{"app.kubernetes.io/name", "swarmjob"},
                       {"app.kubernetes.io/instance", view.name},
                       {"app.kubernetes.io/managed-by", "swarm-operator"},
                       {names::kJobLabel, view.name}};
  return {{"name", name},
          {"namespace", view.ns},
          {"labels", labels},
          {"ownerReferences", OwnerReferences(view)}};
}

json BuildIdentitySecret(const JobView& view, const std::string& pod, const std::string& pod_uid) {
  json secret = Object("v1", "Secret", JobMetadata(view, names::IdentitySecretName(pod)));
  // To block the deletion of its owner, the operator would need the right to change pods.
  secret["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                                        {"kind", "Pod"},
                                                        {"name", pod},
                                                        {"uid", pod_uid},
                                                        {"controller", true}}});
  secret["type"] = "kubernetes.io/tls";
  return secret;
}

json BuildJobSecret(const JobView& view, const std::string& name) {
  json secret = Object("v1", "Secret", JobMetadata(view, name));
  secret["type"] = "Opaque";
  return secret;
}

json BuildConfigMap(const JobView& view) {
  api::SwarmJob job = view.job;
  api::Spec& spec = job.spec;
  const std::uint64_t memory_budget = spec.workers.memoryBudgetBytes;
  // The trainer does not use these fields, so changing them must not change its manifest.
  job.metadata = {};
  spec.suspend = false;
  spec.managedBy.clear();
  spec.budget.reset();
  spec.workers = {.memoryBudgetBytes = memory_budget};
  spec.trainer = {};
  spec.preemption = {};
  spec.failurePolicy = {};
  spec.ttlSecondsAfterFinished.reset();
  json map = Object("v1", "ConfigMap", JobMetadata(view, names::ConfigMapName(view.name)));
  map["data"] = {{"job.json", api::ToJsonText(job, api::Defaults::kLeftOut)}};
  return map;
}

json BuildTrainerService(const JobView& view, std::uint64_t term) {
  json service = Object("v1", "Service", JobMetadata(view, names::TrainerServiceName(view.name)));
  json selector = RoleLabels(view, names::kTrainerRole);
  selector[names::kTermLabel] = std::to_string(term);
  service["spec"] = {{"type", "ClusterIP"},
                     {"selector", selector},
                     {"publishNotReadyAddresses", true},
                     {"ports", json::array({Port("wire", names::kWirePort),
                                            Port("metrics", names::kMetricsPort)})}};
  return service;
}

json BuildWorkersService(const JobView& view) {
  json service = Object("v1", "Service", JobMetadata(view, names::WorkersServiceName(view.name)));
  service["spec"] = {{"clusterIP", "None"},
                     {"selector", RoleLabels(view, names::kWorkerRole)},
                     {"publishNotReadyAddresses", true},
                     {"ports", json::array({Port("wire", names::kWirePort),
                                            Port("metrics", names::kMetricsPort)})}};
  return service;
}

json BuildDisruptionBudget(const JobView& view, const std::string& cluster) {
  const api::Workers& workers = view.job.spec.workers;
  std::uint64_t size = 1;
  for (const api::Pool& pool : workers.pools) {
    size = std::max(size, WorkersOfPod(view.job.spec, pool));
  }
  const auto pods = [size](std::uint64_t count) { return (count + size - 1) / size; };
  const std::uint64_t all = pods(workers.replicas);
  const std::uint64_t all_but_one = all > 0 ? all - 1 : 0;
  const std::uint64_t needed = std::min(pods(workers.minReplicas), all_but_one);
  const std::uint64_t elsewhere = ReadyElsewhere(view.status, cluster) / size;
  json budget = Object("policy/v1", "PodDisruptionBudget",
                       JobMetadata(view, names::DisruptionBudgetName(view.name)));
  budget["spec"] = {{"minAvailable", needed - std::min(needed, elsewhere)},
                    {"selector", {{"matchLabels", RoleLabels(view, names::kWorkerRole)}}},
                    {"unhealthyPodEvictionPolicy", "AlwaysAllow"}};
  return budget;
}

json BuildNetworkPolicy(const JobView& view) {
  const json job_pods = {{"matchLabels", {{names::kJobLabel, view.name}}}};
  const json operator_pods = {{"matchLabels", {{"app.kubernetes.io/name", "swarm-operator"}}}};
  const auto port = [](int number) -> json { return {{"protocol", "TCP"}, {"port", number}}; };
  // The workers of one pod have a port each.
  json wire = port(names::kWirePort);
  wire["endPort"] = names::kWirePort + names::kPodWorkersMax - 1;
  const json peers =
      json::array({{{"podSelector", job_pods}},
                   {{"namespaceSelector", json::object()}, {"podSelector", operator_pods}}});
  json to_wire = {{"ports", json::array({wire})}};
  // The addresses of pods in other clusters, and of machines, are not known. A peer needs a
  // certificate of the job.
  const bool inside =
      ClustersOf(view.job.spec).empty() && view.job.spec.workers.machinePools.empty();
  if (inside) to_wire["from"] = peers;
  json policy = Object("networking.k8s.io/v1", "NetworkPolicy",
                       JobMetadata(view, names::NetworkPolicyName(view.name)));
  policy["spec"] = {{"podSelector", job_pods},
                    {"policyTypes", json::array({"Ingress"})},
                    {"ingress", json::array({to_wire,
                                             {{"ports", json::array({port(names::kMetricsPort),
                                                                     port(names::kPagePort)})}}})}};
  return policy;
}

}  // namespace swarm::objects
