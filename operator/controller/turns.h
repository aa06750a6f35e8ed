// Turns of questions to the API servers of clusters: a few of a cluster at once, the others in the
// order in which they have come. A cluster has threads of its own, so one that does not answer
// holds up no other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace swarm::controller {

/// Of each cluster.
struct TurnLimits {
  std::size_t at_once = 4;
  std::size_t waiting = 256;  ///< for their turn
};

/// Thread-safe.
class Turns {
 public:
  /// Is called once: with OK when it is its turn, on a thread on which it may wait; with
  /// kUnavailable if there will be none. Posts nothing itself.
  using Work = std::function<void(const Status& turn)>;

  explicit Turns(const TurnLimits& limits = {}) : limits_(limits) {}
  /// What waits has no turn. Waits for the rest.
  ~Turns();

  /// Errors: kResourceExhausted, too many wait for this cluster; `work` is not called then.
  Status Post(const std::string& cluster, Work work);

 private:
  struct Line {
    std::deque<Work> waiting;
    std::condition_variable wake;
    std::size_t idle = 0;  ///< threads
    std::vector<std::thread> threads;
  };
  void Serve(Line& line);

  const TurnLimits limits_;
  std::mutex mutex_;
  bool ends_ = false;                  // guarded
  std::map<std::string, Line> lines_;  // guarded; by cluster
};

}  // namespace swarm::controller
