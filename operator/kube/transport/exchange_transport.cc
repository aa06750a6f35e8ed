#include "operator/kube/transport/exchange_transport.h"

#include <algorithm>
#include <string>

namespace swarm::kube {

/// The time limits of the caller.
struct ExchangeTransport::Patience {
  Timepoint head;
  Timepoint whole;
  Duration idle;
};

namespace {

template <typename Patience>
Status Drain(Exchange& exchange, const Patience& patience, const StreamSink& sink,
             std::stop_token stop) {
  ASSIGN_OR_RETURN(const HttpHead head, exchange.WaitForHead(patience.head, stop));
  if (!sink.on_head(head)) return Status();
  while (true) {
    const Timepoint deadline = std::min(patience.whole, Clock::now() + patience.idle);
    ASSIGN_OR_RETURN(const std::string bytes, exchange.WaitForBytes(deadline, stop));
    if (bytes.empty() || !sink.on_bytes(bytes)) return Status();
  }
}

}  // namespace

Result<HttpResponse> ExchangeTransport::Send(const HttpRequest& request, const SendLimits& limits,
                                             std::stop_token stop) {
  HttpResponse response;
  bool too_large = false;
  const StreamSink sink{[&](const HttpHead& head) {
                          response.head = head;
                          return true;
                        },
                        [&](std::string_view bytes) {
                          too_large = response.body.size() + bytes.size() > limits.body_bytes_max;
                          if (!too_large) response.body.append(bytes);
                          return !too_large;
                        }};
  const Timepoint deadline = Clock::now() + limits.timeout;
  const Patience patience{deadline, deadline, limits.timeout};
  RETURN_IF_ERROR(
      Run(Kind::kRequest, request, StreamLimits{}.buffered_bytes_max, patience, sink, stop));
  if (too_large) {
    return ResourceExhausted("the answer is larger than " + std::to_string(limits.body_bytes_max) +
                             " bytes");
  }
  return response;
}

Status ExchangeTransport::Stream(const HttpRequest& request, const StreamLimits& limits,
                                 const StreamSink& sink, std::stop_token stop) {
  const Patience patience{Clock::now() + limits.head_timeout, Timepoint::max(),
                          limits.idle_timeout};
  return Run(Kind::kWatch, request, limits.buffered_bytes_max, patience, sink, stop);
}

Status ExchangeTransport::Run(Kind kind, const HttpRequest& request, std::size_t buffered_bytes_max,
                              const Patience& patience, const StreamSink& sink,
                              std::stop_token stop) {
  const auto exchange = std::make_shared<Exchange>(buffered_bytes_max);
  ASSIGN_OR_RETURN(const Cancel cancel, Begin(kind, request, exchange));
  const Status status = Drain(*exchange, patience, sink, stop);
  exchange->Abandon();
  if (!exchange->ended()) cancel();
  return status;
}

}  // namespace swarm::kube
