// The clock, the sleep and the dice of this folder, so that tests take no time and no chances.
#pragma once

#include <chrono>
#include <stop_token>

#include "base/time.h"

namespace swarm::kube {

using WallTime = std::chrono::system_clock::time_point;

/// Thread-safe.
class Timing {
 public:
  virtual ~Timing() = default;
  /// Never goes back; what waits and limits are measured by.
  virtual Timepoint Now() = 0;
  /// What people and the API server read. Only ever written down, never compared with another
  /// machine's.
  virtual WallTime WallNow() = 0;
  /// Returns whether the whole of `duration` has passed; false once `stop` was requested.
  virtual bool Sleep(Duration duration, std::stop_token stop) = 0;
  /// Uniform in [0, 1).
  virtual double Uniform() = 0;
};

/// The machine's own; lives as long as the process.
Timing& SystemTiming();

/// Doubles from `first` to `most`, each with up to `jitter` times itself added at random.
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
