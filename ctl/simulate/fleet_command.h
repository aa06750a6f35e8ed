// swarmctl simulate --fleet: trains a job on a described fleet in virtual time.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct FleetOptions {
  std::string fleet;   ///< the file
  std::string plot;    ///< written: a picture as SVG; empty: none
  std::string events;  ///< written: the trainer's events, as lines of JSON; empty: none
  std::uint64_t seed = 1;
  bool json = false;
};

/// Prints the result. Errors go to `err`.
ExitCode RunFleet(const FleetOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
