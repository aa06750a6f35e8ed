// Where the workers of other clusters reach the gateway of this one: its Service says so, once its
// load balancer has an address.
#pragma once

#include <mutex>
#include <string>

#include "operator/kube/client/client.h"

namespace swarm::satellite {

/// host:port at which the load balancer before a gateway's Service is reached. Empty: it has no
/// address yet, or the Service has no load balancer. Pure.
std::string GatewayAddress(const kube::Object& service);

/// Whether a text, which another cluster's satellite may have sent, is host:port. Pure.
bool IsGatewayAddress(const std::string& text);

/// The gateway of the operator's own cluster. Thread-safe.
class OwnGateway {
 public:
  /// `service` without a name: there is no gateway. The client outlives this.
  OwnGateway(kube::ObjectName service, kube::Client& client)
      : service_(std::move(service)), client_(client) {}

  bool exists() const { return !service_.name.empty(); }
  /// Asks the API server for the Service. Returns whether the address has changed. What is known
  /// stays where the server does not answer.
  bool Look();
  /// host:port; empty: it is not known.
  std::string address() const;

 private:
  const kube::ObjectName service_;
  kube::Client& client_;
  mutable std::mutex mutex_;
  std::string address_;  // guarded
};

}  // namespace swarm::satellite
