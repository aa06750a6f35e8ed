// The part of HTTP that the client needs: whole answers, and answers that never end (watches). A
// transport has one server. Authorization headers are the caller's concern.
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
  Duration head_timeout = std::chrono::seconds(30);  ///< from the call to the HTTP status
  /// The longest silence. Only this detects a peer that has vanished.
  Duration idle_timeout = std::chrono::seconds(150);
  /// Bytes that may wait for `on_bytes`. Above this, the transport stops reading from the socket.
  std::size_t buffered_bytes_max = std::size_t{16} << 20;
};

/// Receives a stream, on the thread that called Stream. Returning false ends the stream.
struct StreamSink {
  std::function<bool(const HttpHead&)> on_head;    ///< once, before any byte
  std::function<bool(std::string_view)> on_bytes;  ///< cut at any place
};

/// Thread-safe; a call blocks its thread. Redirects are not followed, so that a token never reaches
/// another server.
///
/// An interface, because the tests of operator/controller run against an API server within the
/// process (operator/controller/testing/fake_api_server.h).
///
/// Errors of both calls: kUnavailable (no connection, a broken connection, not HTTP),
/// kDeadlineExceeded (a time limit), kResourceExhausted (the body is too large), kCancelled
/// (`stop`). An HTTP status is never an error.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  virtual Result<HttpResponse> Send(const HttpRequest& request, const SendLimits& limits,
                                    std::stop_token stop) = 0;

  /// Ok if the server ended the body in order, or if the sink ended the stream.
  virtual Status Stream(const HttpRequest& request, const StreamLimits& limits,
                        const StreamSink& sink, std::stop_token stop) = 0;

  /// host:port, for a label of the metrics.
  virtual std::string host() const = 0;
};

}  // namespace swarm::kube
