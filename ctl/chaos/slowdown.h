// Makes processes slow: each is stopped and continued many times a second, so that it runs for one
// part in `factor` of the time. The periods are short beside a microbatch and a heartbeat: to
// everybody else it is a slow machine, not one that comes and goes.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/time.h"

namespace swarm::ctl {

/// Thread-safe. Process groups are named by their leader, which must not have been reaped: Set(1)
/// before.
class Slowdowns {
 public:
  Slowdowns() = default;
  /// All run at full speed again.
  ~Slowdowns();
  Slowdowns(const Slowdowns&) = delete;
  Slowdowns& operator=(const Slowdowns&) = delete;

  /// `factor` times slower from now on; 1: no longer, and it runs unless it is paused.
  void Set(pid_t group, double factor);
  /// The group is stopped by somebody and must not be continued.
  void Pause(pid_t group);
  void Resume(pid_t group);

 private:
  struct Group {
    double factor = 1;
    bool paused = false;
    bool running = true;
    Timepoint next{};  // change between running and not
  };

  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<pid_t, Group> groups_;  // slow or paused ones
  bool stopping_ = false;
  std::thread thread_;  // from the first slowdown on
};

}  // namespace swarm::ctl
