// For tests: the implementations of Endpoint, made alike.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/net/endpoint.h"

namespace swarm::net {

struct EndpointLimits {
  std::size_t control_window_bytes = 8u << 20;
  std::size_t data_window_bytes = 64u << 20;
  std::size_t payload_bytes_max = 1u << 30;
};

/// A network, and a way to make endpoints in it.
class NetworkUnderTest {
 public:
  virtual ~NetworkUnderTest() = default;
  virtual Result<std::unique_ptr<Endpoint>> Make(const WorkerId& self, EndpointHandler* handler,
                                                 const EndpointLimits& limits) = 0;
  /// A well-formed address without an endpoint.
  virtual std::string nowhere() const = 0;
};

std::vector<const char*> NetworksUnderTest();
std::unique_ptr<NetworkUnderTest> MakeNetwork(std::string_view name);

}  // namespace swarm::net
