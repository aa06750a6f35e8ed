// Which resource of the API is meant, and where it lives. Pure.
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

  /// "v1", "apps/v1".
  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
  bool operator==(const Resource&) const = default;
};

/// Those that the operator touches.
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
Resource SwarmJobs();
}  // namespace resources

/// "/api/v1/namespaces/NS/pods" or, without a namespace, "/api/v1/pods": what is listed, watched
/// and posted to.
std::string CollectionPath(const Resource& resource, const std::string& ns);

/// "/api/v1/namespaces/NS/pods/NAME", with "/status" behind it if `subresource` says so.
std::string ObjectPath(const Resource& resource, const ObjectName& name,
                       std::string_view subresource = "");

using QueryParameters = std::vector<std::pair<std::string, std::string>>;

/// "path?a=b&c=d", the values escaped; those that are empty are left out.
std::string WithQuery(std::string path, const QueryParameters& parameters);

}  // namespace swarm::kube
