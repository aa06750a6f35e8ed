// The only clock types in use: decisions take a Timepoint as a value, the edges read the clock.
#pragma once

#include <chrono>

namespace swarm {

/// The machine's steady clock, or in a test the VirtualTime of this thread (virtual_time.h).
struct Clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now();
};
using Timepoint = Clock::time_point;
using Duration = Clock::duration;

constexpr double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
constexpr Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace swarm
