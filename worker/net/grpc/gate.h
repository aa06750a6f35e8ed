// Lets calls through until it is closed.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/time.h"

namespace swarm::net {

/// Thread-safe.
class Gate {
 public:
  /// Runs `call` unless the gate is closed.
  template <typename Call>
  void Pass(const Call& call) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      ++inside_;
    }
    call();
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0 && closed_) empty_.notify_all();
  }

  /// No call begins after this. Returns whether all running calls have ended before `deadline`.
  bool Close(Timepoint deadline) {
    std::unique_lock lock(mutex_);
    closed_ = true;
    return empty_.wait_until(lock, deadline, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;
  bool closed_ = false;
};

}  // namespace swarm::net
