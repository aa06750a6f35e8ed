// Makes processes slow: stops and continues each one many times a second, so that it runs for
// 1/factor of the time. The periods are much shorter than a microbatch and a heartbeat, so that the
// other programs see a slow machine, not one that comes and goes.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/time.h"

namespace swarm {

/// Thread-safe. A process group is named by its leader. Call Set(group, 1) before the leader is
/// reaped.
class Slowdowns {
 public:
  Slowdowns() = default;
  /// Lets all groups run at full speed.
  ~Slowdowns();
  Slowdowns(const Slowdowns&) = delete;
  Slowdowns& operator=(const Slowdowns&) = delete;

  /// Makes the group `factor` times slower from now on; 1: full speed, unless it is paused.
  void Set(pid_t group, double factor);
  /// The caller has stopped the group; it is not continued until Resume.
  void Pause(pid_t group);
  void Resume(pid_t group);

 private:
  struct Group {
    double factor = 1;
    bool paused = false;
    bool running = true;
    Timepoint next{};  // change between running and stopped
  };

  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<pid_t, Group> groups_;  // slow or paused ones
  bool stopping_ = false;
  std::thread thread_;  // from the first slowdown on
};

}  // namespace swarm
