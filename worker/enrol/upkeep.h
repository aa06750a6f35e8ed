// When a worker that has joined asks home again. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace swarm::enrol {

/// The first and the longest pause between two tries to reach home, or to start a worker again.
inline constexpr Duration kRetryMin = std::chrono::seconds(1);
inline constexpr Duration kRetryMax = std::chrono::seconds(30);
/// How often a worker hears from home who is revoked: what is revoked is out within a minute.
inline constexpr Duration kRefreshPeriod = std::chrono::seconds(10);

/// The age of a certificate at which the next one is due: between half and two thirds of its
/// validity, so that many workers do not ask at once, and a few tries have room. `random` is in
/// [0, 1).
inline Duration RenewalAge(Duration validity, double random) {
  return FromSeconds(ToSeconds(validity) * (1.0 / 2 + random / 6));
}

/// The pause after the given number of failures in a row, at least one: it doubles up to the
/// longest, and is cut by up to a half.
inline Duration RetryPause(std::uint64_t failures, double random) {
  const Duration full =
      std::min<Duration>(kRetryMax, kRetryMin * (1LL << std::min<std::uint64_t>(failures - 1, 10)));
  return FromSeconds(ToSeconds(full) * (1 - random / 2));
}

}  // namespace swarm::enrol
