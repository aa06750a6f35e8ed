#include "operator/satellite/gateway.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/host_port.h"
#include "base/log.h"
#include "operator/kube/object/service.h"

namespace swarm::satellite {
namespace {

/// The port's name in the chart's Service (helm/swarmjob/templates/gateway.yaml).
constexpr const char* kPort = "workers";

}  // namespace

std::string GatewayAddress(const kube::Object& service) {
  const std::string host = kube::LoadBalancerOf(*service);
  const nlohmann::json port = kube::PortOf(*service, kPort);
  if (host.empty() || port.is_null()) return "";
  return ToString(HostPort{host, port.value("port", std::uint16_t{0})});
}

bool IsGatewayAddress(const std::string& text) {
  const auto address = ReadHostPort(text);
  return address && address->port != 0 && address->host.find('/') == std::string::npos;
}

bool OwnGateway::Look() {
  if (!exists()) return false;
  const auto service = client_.Get(kube::resources::Services(), service_);
  const bool none = service.status().code() == StatusCode::kNotFound;
  if (!service.ok() && !none) {
    LOG_WARN("the gateway's address is not known: {}", service.status().ToString());
    return false;
  }
  std::string address = none ? "" : GatewayAddress(*service);
  const std::lock_guard lock(mutex_);
  if (address == address_) return false;
  LOG_INFO("other clusters reach the gateway at {}", address.empty() ? "no address" : address);
  address_ = std::move(address);
  return true;
}

std::string OwnGateway::address() const {
  const std::lock_guard lock(mutex_);
  return address_;
}

}  // namespace swarm::satellite
