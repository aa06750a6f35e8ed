// Counts failures within a sliding window. Pure; works with the time points of any clock.
#pragma once

#include <cstdint>
#include <vector>

namespace swarm::plan {

/// Adds a failure at `now` and removes those that have left the window. Returns whether the window
/// now holds more than `most` failures.
template <typename Time, typename Window>
bool ChargeFailure(Time now, Window window, std::uint64_t most, std::vector<Time>* failures) {
  std::erase_if(*failures, [&](Time time) { return now - time >= window; });
  failures->push_back(now);
  return failures->size() > most;
}

}  // namespace swarm::plan
