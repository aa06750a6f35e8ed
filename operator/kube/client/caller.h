// One call with all its tries: rate limit, authorization, retries and metrics. RestClient
// implements the verbs on top of it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "operator/kube/client/rest_client.h"
#include "operator/kube/client/retry.h"

namespace swarm::kube {

struct Call {
  std::string verb;  ///< for the metrics: "get", "list", ...
  HttpRequest request;
  bool idempotent = true;
  CallTimeout timeout;
  std::stop_token stop;  ///< in addition to the client's own
};

/// Thread-safe.
class Caller {
 public:
  Caller(std::shared_ptr<HttpTransport> transport, std::shared_ptr<Credentials> credentials,
         const RestClientOptions& options, Timing& timing, ClientMetrics* metrics);

  /// The answer of the last try, with any HTTP status; or an error if there is no answer.
  Result<HttpResponse> Send(Call call);

  /// One try, and a second one after a 401.
  Status Stream(const Call& call, const StreamLimits& limits, const StreamSink& sink);

  const RestClientOptions& options() const { return options_; }
  Timing& timing() { return timing_; }

 private:
  Result<HttpResponse> TryOnce(Call& call, Timepoint deadline, std::stop_token stop);
  Status WaitForTurn(const Call& call, std::stop_token stop);
  Status SetHeaders(HttpRequest& request);
  void Count(const Call& call, int http_status, Timepoint began);

  const std::shared_ptr<HttpTransport> transport_;
  const std::shared_ptr<Credentials> credentials_;
  const RestClientOptions options_;
  Timing& timing_;
  ClientMetrics* const metrics_;
  std::mutex mutex_;
  TokenBucket bucket_;  // guarded by mutex_
};

}  // namespace swarm::kube
