// What a Service says of its ports, and of the load balancer before it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace swarm::kube {

/// The port of this name, as in spec.ports; null: there is none.
nlohmann::json PortOf(const nlohmann::json& service, const std::string& name);

/// Name or IP of the load balancer; empty: it has none yet, or the Service is of another type.
std::string LoadBalancerOf(const nlohmann::json& service);

}  // namespace swarm::kube
