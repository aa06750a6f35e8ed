// The resources of the API, and their paths. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/object/object.h"

namespace swarm::kube {

struct Resource {
  std::string group;    ///< empty for the core group
  std::string version;  ///< "v1"
  std::string plural;   ///< "pods"
  bool namespaced = true;

  bool operator==(const Resource&) const = default;
};

/// The resources that the operator uses.
namespace resources {
Resource Pods();
Resource Nodes();
Resource Services();
Resource ConfigMaps();
Resource Secrets();
Resource Namespaces();
Resource Events();  ///< events.k8s.io/v1
Resource Leases();
Resource PodDisruptionBudgets();
Resource NetworkPolicies();
Resource EndpointSlices();
Resource SwarmJobs();
// Of Kueue; a cluster may not serve them.
Resource Workloads();
Resource WorkloadPriorityClasses();
Resource ResourceFlavors();
}  // namespace resources

/// The path for list, watch and create: "/api/v1/namespaces/NS/pods" or, without a namespace,
/// "/api/v1/pods".
std::string CollectionPath(const Resource& resource, const std::string& ns);

/// "/api/v1/namespaces/NS/pods/NAME", followed by "/SUBRESOURCE" if there is one.
std::string ObjectPath(const Resource& resource, const ObjectName& name,
                       std::string_view subresource = "");

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

/// "path?a=b&c=d", with escaped values. Empty values are left out.
std::string WithQuery(std::string path, const QueryParameters& parameters);

}  // namespace swarm::kube
