// Answers Prometheus and the kubelet: a program's metrics at http://host:port/metrics, its probes
// at /healthz and /readyz. The room of prometheus-cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "base/web/web_server.h"

namespace swarm::metrics {

/// Returns the current values. Called for each scrape on the web server's threads, possibly on two
/// at once. Must return soon and must not throw.
using ReadSamples = std::function<std::vector<MetricSample>()>;

/// OK if the program is healthy. Otherwise the answer is 503 with the status as text. Called like
/// ReadSamples.
using Probe = std::function<Status()>;

/// The same as the text that Prometheus reads, for a program that passes on what others serve.
using ReadText = std::function<std::string()>;

/// The pages of an exporter. They are called with the little stack of web::Handler.
/// If `metrics` and `metrics_text` are null, /metrics answers 404. A null probe answers 200: a
/// program that answers is healthy.
struct Pages {
  ReadSamples metrics;
  Probe healthz;
  Probe readyz;
  ReadText metrics_text = nullptr;  ///< where `metrics` is null
};

/// Two threads serve, so that one slow reader does not block others. At its end it waits for
/// requests in progress, and calls no page after that.
class Exporter {
 public:
  /// Begins to serve at `listen` (web::ServerOptions). Errors: as web::Server::Start.
  static Result<std::unique_ptr<Exporter>> Start(const std::string& listen, Pages pages);
  /// address:port, with the port that was taken.
  const std::string& address() const { return server_->address(); }

 private:
  explicit Exporter(std::unique_ptr<web::Server> server) : server_(std::move(server)) {}

  const std::unique_ptr<web::Server> server_;
};

}  // namespace swarm::metrics
