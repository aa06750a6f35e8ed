// The clock, the sleep and the random numbers of this folder.
#pragma once

#include <chrono>
#include <stop_token>

#include "base/time.h"

namespace swarm::kube {

using WallTime = std::chrono::system_clock::time_point;

/// Thread-safe. An interface, so that tests of retries, leases and queues run without waiting and
/// with chosen random numbers (testing/fake_timing.h).
class Timing {
 public:
  virtual ~Timing() = default;
  /// The monotonic clock, for pauses and deadlines.
  virtual Timepoint Now() = 0;
  /// The wall clock, for what people and the API server read. Never compared with the clock of
  /// another machine.
  virtual WallTime WallNow() = 0;
  /// Returns true after `duration`, or false as soon as `stop` is requested.
  virtual bool Sleep(Duration duration, std::stop_token stop) = 0;
  /// Uniform in [0, 1).
  virtual double Uniform() = 0;
};

/// The clocks of this machine. Lives as long as the process.
Timing& SystemTiming();

/// Pauses that double from `first` to `most`. Each is prolonged by a random part, at most `jitter`
/// times itself.
class Backoff {
 public:
  struct Options {
    Duration first = std::chrono::milliseconds(800);
    Duration most = std::chrono::seconds(30);
    double jitter = 1.0;
  };
  explicit Backoff(const Options& options) : options_(options) {}

  /// The next pause; `uniform` is a draw in [0, 1).
  Duration Next(double uniform);
  void Reset() { next_ = Duration::zero(); }

 private:
  Options options_;
  Duration next_ = Duration::zero();  // without the jitter; zero means `first`
};

}  // namespace swarm::kube
