#include "ctl/cluster/home_address.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/host_port.h"
#include "operator/kube/object/service.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

/// The port's name in the chart's Service (helm/swarmjob/templates/satellites.yaml).
constexpr const char* kPort = "satellites";

Result<std::string> AddressOf(const json& service, const json& port) {
  const std::string name = "Service " + kube::NameOf(service).ToString();
  const std::string type = kube::TextAt(service, "/spec/type");
  if (type != "LoadBalancer") {
    const int reached = port.value(type == "NodePort" ? "nodePort" : "port", 0);
    return FailedPrecondition(name + " is of type " + type +
                              ", so it does not say where other clusters reach it: name the"
                              " address, as in --home HOST:" +
                              std::to_string(reached));
  }
  const std::string host = kube::LoadBalancerOf(service);
  if (host.empty()) {
    return Unavailable("the load balancer of " + name +
                       " has no address yet; `kubectl describe service` says what it waits for, and"
                       " --home HOST:PORT names another one");
  }
  return ToString(HostPort{host, port.value("port", std::uint16_t{0})});
}

}  // namespace

Result<std::string> HomeAddress(const std::vector<kube::Object>& services) {
  for (const kube::Object& service : services) {
    const json port = kube::PortOf(*service, kPort);
    if (!port.is_null()) return AddressOf(*service, port);
  }
  return NotFound("no Service is for satellites");
}

}  // namespace swarm::ctl
