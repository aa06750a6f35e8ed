#include "operator/kube/object/service.h"

#include <nlohmann/json.hpp>

#include "operator/kube/object/object.h"

namespace swarm::kube {

using nlohmann::json;

json PortOf(const json& service, const std::string& name) {
  for (const json& port : service.value("/spec/ports"_json_pointer, json::array())) {
    if (TextAt(port, "/name") == name) return port;
  }
  return {};
}

std::string LoadBalancerOf(const json& service) {
  const std::string host = TextAt(service, "/status/loadBalancer/ingress/0/hostname");
  return host.empty() ? TextAt(service, "/status/loadBalancer/ingress/0/ip") : host;
}

}  // namespace swarm::kube
