// The pages of a pod, for probes and metrics: those of its workers together.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics/exporter.h"
#include "base/status.h"
#include "base/time.h"

namespace swarm::pod {

/// The metrics of several programs as one text: each metric once, with the samples of all. A sample
/// that does not say of which worker it is gets the label. `texts`: by worker. Pure.
std::string MergeMetrics(const std::vector<std::pair<std::string, std::string>>& texts);

/// Asks the workers that run, over HTTP. The pod is healthy unless a worker that has answered once
/// since its start does not; it is ready when all that run are ready, and one is there. A worker
/// that ends is no failure of the pod. Thread-safe.
class PodPages {
 public:
  struct Source {
    std::string worker;
    /// Where the worker serves its pages; empty: it is not known yet.
    std::function<std::string()> address;
  };
  explicit PodPages(std::vector<Source> sources);

  void OnStarted(std::size_t index) { Set(index, {.runs = true}); }
  void OnEnded(std::size_t index) { Set(index, {}); }
  /// They refer to this object.
  metrics::Pages Get();

 private:
  struct State {
    bool runs = false;
    bool answered = false;
  };
  void Set(std::size_t index, State state);
  State At(std::size_t index);
  std::string Metrics();
  Status CheckHealth();
  Status CheckReady();

  const std::vector<Source> sources_;
  std::mutex mutex_;
  std::vector<State> states_;  // guarded
};

}  // namespace swarm::pod
