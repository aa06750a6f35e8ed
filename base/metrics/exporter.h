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

/// The values of the moment. Called for each scrape, on the web server's threads, perhaps by two at
/// once; must return soon and must not throw.
using ReadSamples = std::function<std::vector<MetricSample>()>;

/// OK: the program is well. Else its answer is 503 and the status as text, for people. Called like
/// ReadSamples.
using Probe = std::function<Status()>;

/// What is served. An address that serves no metrics leaves `metrics` null and answers 404 there; a
/// null probe says that the program is well, which it is if it answers.
struct Pages {
  ReadSamples metrics;
  Probe healthz;
  Probe readyz;
};

/// Nothing is computed or kept between requests. Two threads serve, so that one slow reader does
/// not keep others out; a request that stays incomplete for five seconds is dropped. Answers GET
/// and HEAD.
class Exporter {
 public:
  /// Begins to serve. `listen` is address:port, [IPv6 address]:port for that family; port 0 takes a
  /// free one, 0.0.0.0 listens on all interfaces. Errors: kInvalidArgument for another form,
  /// kUnavailable if the address cannot be listened at.
  static Result<std::unique_ptr<Exporter>> Start(const std::string& listen, Pages pages);
  /// Waits for requests in progress; no page is called any more when it returns.
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
