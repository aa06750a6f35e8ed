// Time that passes only in Sleep and Advance, and random numbers that are always 0.
#pragma once

#include <mutex>
#include <vector>

#include "operator/kube/timing/timing.h"

namespace swarm::kube {

/// Thread-safe. Sleep advances the clock and returns at once.
class FakeTiming final : public Timing {
 public:
  Timepoint Now() override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  WallTime WallNow() override {
    const std::lock_guard lock(mutex_);
    return WallTime(std::chrono::hours(480'000)) +
           std::chrono::duration_cast<WallTime::duration>(now_.time_since_epoch());
  }
  bool Sleep(Duration duration, std::stop_token stop) override {
    const std::lock_guard lock(mutex_);
    now_ += duration;
    sleeps_.push_back(duration);
    return !stop.stop_requested();
  }
  double Uniform() override { return 0; }

  void Advance(Duration duration) {
    const std::lock_guard lock(mutex_);
    now_ += duration;
  }
  std::vector<Duration> sleeps() const {
    const std::lock_guard lock(mutex_);
    return sleeps_;
  }

 private:
  mutable std::mutex mutex_;
  Timepoint now_{std::chrono::hours(1)};
  std::vector<Duration> sleeps_;
};

}  // namespace swarm::kube
