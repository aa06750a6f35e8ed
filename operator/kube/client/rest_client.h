// The Client that uses HTTP.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "operator/kube/client/client.h"
#include "operator/kube/client/metrics.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/timing/timing.h"
#include "operator/kube/transport/http.h"

namespace swarm::kube {

struct RestClientOptions {
  std::string user_agent = "swarm-operator";  ///< with a version: "swarm-operator/0.1.0"
  std::string field_manager = "swarm-operator";
  double requests_per_second = 50;
  double burst = 100;
  Duration request_timeout = std::chrono::seconds(30);  ///< of one try
  Duration call_timeout = std::chrono::seconds(60);     ///< of all tries and pauses
  std::stop_token stop;  ///< ends all calls when the process ends or loses the leadership
};

/// `timing` and `metrics` must outlive the client; `metrics` may be null.
std::unique_ptr<Client> MakeRestClient(std::shared_ptr<HttpTransport> transport,
                                       std::shared_ptr<Credentials> credentials,
                                       const RestClientOptions& options, Timing& timing,
                                       ClientMetrics* metrics);

}  // namespace swarm::kube
