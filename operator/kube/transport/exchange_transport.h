// What the transports share that get their answers on threads of a library: the caller waits at an
// Exchange, within its time limits.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "operator/kube/transport/exchange.h"
#include "operator/kube/transport/http.h"

namespace swarm::kube {

class ExchangeTransport : public HttpTransport {
 public:
  Result<HttpResponse> Send(const HttpRequest& request, const SendLimits& limits,
                            std::stop_token stop) final;
  Status Stream(const HttpRequest& request, const StreamLimits& limits, const StreamSink& sink,
                std::stop_token stop) final;

 protected:
  enum class Kind { kRequest, kWatch };
  /// Gives the library up: it may use the exchange until it calls OnEnd, but it closes what it has
  /// open for this request.
  using Cancel = std::function<void()>;

  /// Begins a request, whose answer goes to `exchange`.
  virtual Result<Cancel> Begin(Kind kind, const HttpRequest& request,
                               const std::shared_ptr<Exchange>& exchange) = 0;

 private:
  struct Patience;
  Status Run(Kind kind, const HttpRequest& request, std::size_t buffered_bytes_max,
             const Patience& patience, const StreamSink& sink, std::stop_token stop);
};

}  // namespace swarm::kube
