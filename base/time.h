// The only clock types in use: decisions take a Timepoint as a value, the edges read the clock.
#pragma once

#include <chrono>

namespace swarm {

using Clock = std::chrono::steady_clock;
using Timepoint = Clock::time_point;
using Duration = Clock::duration;

constexpr double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
constexpr Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace swarm
