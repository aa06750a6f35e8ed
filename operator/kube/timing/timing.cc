#include "operator/kube/timing/timing.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

namespace swarm::kube {
namespace {

class Machine final : public Timing {
 public:
  Timepoint Now() override { return Clock::now(); }
  WallTime WallNow() override { return std::chrono::system_clock::now(); }

  bool Sleep(Duration duration, std::stop_token stop) override {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, duration, [] { return false; });
    return !stop.stop_requested();
  }

  double Uniform() override {
    const std::lock_guard lock(mutex_);
    return std::uniform_real_distribution<double>(0, 1)(dice_);
  }

 private:
  std::mutex mutex_;
  // Seeded by the system, because operators that start at the same time must not draw the same
  // pauses.
  std::mt19937_64 dice_{std::random_device{}()};
};

}  // namespace

Timing& SystemTiming() {
  static Machine machine;
  return machine;
}

Duration Backoff::Next(double uniform) {
  const Duration pause = next_ == Duration::zero() ? options_.first : next_;
  next_ = std::min(2 * pause, options_.most);
  return pause + FromSeconds(ToSeconds(pause) * options_.jitter * uniform);
}

}  // namespace swarm::kube
