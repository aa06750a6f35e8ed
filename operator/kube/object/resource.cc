#include "operator/kube/object/resource.h"

namespace swarm::kube {
namespace {

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// RFC 3986, section 2.1. Names of objects may contain characters that a path may not
// ("system:node").
std::string Escape(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (IsUnreserved(c)) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return escaped;
}

}  // namespace

namespace resources {
Resource Pods() { return {"", "v1", "pods"}; }
Resource Nodes() { return {"", "v1", "nodes", false}; }
Resource Services() { return {"", "v1", "services"}; }
Resource ConfigMaps() { return {"", "v1", "configmaps"}; }
Resource Secrets() { return {"", "v1", "secrets"}; }
Resource Namespaces() { return {"", "v1", "namespaces", false}; }
Resource Events() { return {"events.k8s.io", "v1", "events"}; }
Resource Leases() { return {"coordination.k8s.io", "v1", "leases"}; }
Resource PodDisruptionBudgets() { return {"policy", "v1", "poddisruptionbudgets"}; }
Resource NetworkPolicies() { return {"networking.k8s.io", "v1", "networkpolicies"}; }
Resource EndpointSlices() { return {"discovery.k8s.io", "v1", "endpointslices"}; }
Resource SwarmJobs() { return {"swarmjob.dev", "v1alpha1", "swarmjobs"}; }
Resource Workloads() { return {"kueue.x-k8s.io", "v1beta2", "workloads"}; }
Resource WorkloadPriorityClasses() {
  return {"kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", false};
}
Resource ResourceFlavors() { return {"kueue.x-k8s.io", "v1beta2", "resourceflavors", false}; }
}  // namespace resources

std::string CollectionPath(const Resource& resource, const std::string& ns) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  path += resource.version;
  if (resource.namespaced && !ns.empty()) path += "/namespaces/" + Escape(ns);
  return path + "/" + resource.plural;
}

std::string ObjectPath(const Resource& resource, const ObjectName& name,
                       std::string_view subresource) {
  std::string path = CollectionPath(resource, name.ns) + "/" + Escape(name.name);
  if (!subresource.empty()) path.append("/").append(subresource);
  return path;
}

std::string WithQuery(std::string path, const QueryParameters& parameters) {
  char separator = '?';
  for (const auto& [key, value] : parameters) {
    if (value.empty()) continue;
    path += separator + key + "=" + Escape(value);
    separator = '&';
  }
  return path;
}

}  // namespace swarm::kube
