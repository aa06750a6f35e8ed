// When the machines of a fleet come and go: by its traces, or by chance at a group's rate. Pure;
// one seed gives one history, whatever the job does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/simulate/fleet/fleet.h"

namespace swarm::ctl {

/// One machine, from its arrival to its end.
struct Stay {
  std::string name;       ///< unlike all others
  std::size_t group = 0;  ///< of the fleet
  double begin = 0;       ///< seconds since the start
  double end = 0;         ///< infinity: it stays

  bool operator==(const Stay&) const = default;
};

/// All machines that come before the fleet's time is over, ordered by `begin`.
std::vector<Stay> DrawStays(const Fleet& fleet, std::uint64_t seed);

}  // namespace swarm::ctl
