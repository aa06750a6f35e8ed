// Answers Prometheus and the kubelet: a program's metrics at http://host:port/metrics, its probes
// at /healthz and /readyz. The room of prometheus-cpp and of the web server, civetweb.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"

namespace swarm::metrics {

/// Returns the current values. Called for each scrape on the web server's threads, possibly on two
/// at once. Must return soon and must not throw.
using ReadSamples = std::function<std::vector<MetricSample>()>;

/// OK if the program is healthy. Otherwise the answer is 503 with the status as text. Called like
/// ReadSamples.
using Probe = std::function<Status()>;

/// The same as the text that Prometheus reads, for a program that passes on what others serve.
using ReadText = std::function<std::string()>;

/// The pages of an exporter. The web server calls them with a stack of 100 KiB, from which the
/// thread-local memory of all libraries goes (libtorch: 32 KiB): large buffers belong on the heap.
/// If `metrics` and `metrics_text` are null, /metrics answers 404. A null probe answers 200: a
/// program that answers is healthy.
struct Pages {
  ReadSamples metrics;
  Probe healthz;
  Probe readyz;
  ReadText metrics_text = nullptr;  ///< where `metrics` is null
};

/// Keeps nothing between requests. Two threads serve, so that one slow reader does not block
/// others. Drops a request that stays incomplete for five seconds. Answers GET and HEAD.
class Exporter {
 public:
  /// Begins to serve. `listen` is address:port, [IPv6 address]:port for that family; port 0 takes a
  /// free one, 0.0.0.0 listens on all interfaces. Errors: kInvalidArgument for another form,
  /// kUnavailable if the address cannot be listened at.
  static Result<std::unique_ptr<Exporter>> Start(const std::string& listen, Pages pages);
  /// Waits for requests in progress; calls no page after it returns.
  ~Exporter();

  /// address:port, with the port that was taken.
  const std::string& address() const { return address_; }

 private:
  class Server;
  Exporter(std::unique_ptr<Server> server, std::string address);

  std::unique_ptr<Server> server_;
  std::string address_;
};

}  // namespace swarm::metrics
