// For tests: the real client, with a transport of the test.
#pragma once

#include <memory>

#include "operator/kube/client/rest_client.h"

namespace swarm::controller {

inline std::unique_ptr<kube::Client> MakeClientUnderTest(
    std::shared_ptr<kube::HttpTransport> transport, std::stop_token stop = {}) {
  kube::RestClientOptions options;
  options.requests_per_second = 1e6;
  options.burst = 1e6;
  options.stop = stop;
  return kube::MakeRestClient(std::move(transport), kube::FixedToken(""), options,
                              kube::SystemTiming(), nullptr);
}

}  // namespace swarm::controller
