// How many failures in a row of time are too many. Pure; any clock's time points.
#pragma once

#include <cstdint>
#include <vector>

namespace swarm::plan {

/// Notes a failure at `now` and forgets those that the window has left behind. True: with this one
/// there are more than `most`.
template <typename Time, typename Window>
bool ChargeFailure(Time now, Window window, std::uint64_t most, std::vector<Time>* failures) {
  std::erase_if(*failures, [&](Time time) { return now - time >= window; });
  failures->push_back(now);
  return failures->size() > most;
}

}  // namespace swarm::plan
