// What the client needs of HTTP, and no more: whole answers, and answers that go on for ever. The
// one server is the API server; who speaks for us (headers) is the caller's matter.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"

namespace swarm::kube {

/// Names in lower case.
using HttpHeaders = std::map<std::string, std::string>;

struct HttpRequest {
  std::string method = "GET";
  std::string target;  ///< path and query, escaped
  HttpHeaders headers;
  std::string body;
};

struct HttpHead {
  int status = 0;
  HttpHeaders headers;
};

struct HttpResponse {
  HttpHead head;
  std::string body;
};

struct SendLimits {
  Duration timeout = std::chrono::seconds(30);  ///< from the call to the last byte
  std::size_t body_bytes_max = std::size_t{512} << 20;
};

struct StreamLimits {
  Duration head_timeout = std::chrono::seconds(30);  ///< from the call to the status
  /// The longest silence. A peer that went without a word is noticed by nothing else.
  Duration idle_timeout = std::chrono::seconds(150);
  /// What may wait for `on_bytes`; above it the sender is slowed down.
  std::size_t buffered_bytes_max = std::size_t{16} << 20;
};

/// Where a stream goes. Called on the thread that called Stream. Returning false ends the stream.
struct StreamSink {
  std::function<bool(const HttpHead&)> on_head;    ///< once, before any byte
  std::function<bool(std::string_view)> on_bytes;  ///< cut anywhere
};

/// Thread-safe; each call blocks its own thread. Redirects are answers like any other: a token is
/// never carried to where somebody points.
///
/// Errors of both: kUnavailable (no connection, a broken one, no HTTP), kDeadlineExceeded (a limit
/// of time), kResourceExhausted (the body is larger than allowed), kCancelled (`stop`). An HTTP
/// status, whichever, is no error.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  virtual Result<HttpResponse> Send(const HttpRequest& request, const SendLimits& limits,
                                    std::stop_token stop) = 0;

  /// Ok if the server ended the body in order, or the sink wanted no more.
  virtual Status Stream(const HttpRequest& request, const StreamLimits& limits,
                        const StreamSink& sink, std::stop_token stop) = 0;

  /// host:port, for the label of metrics.
  virtual std::string host() const = 0;
};

}  // namespace swarm::kube
