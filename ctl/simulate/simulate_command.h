// swarmctl simulate: replays a trace of machines that come and go against the balancing rules.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct SimulateOptions {
  std::string trace;
  int stages = 4;
  std::vector<double> stage_costs;  ///< empty: all alike; else one a stage
  double state_load_seconds = 60;
  std::string policy = "Event";  ///< Event, Moves, Periodic or None
  double period_seconds = 300;
  double switch_seconds = 1;
  int copies = 2;
  double copy_drag = 0.05;
  std::uint64_t seed = 1;
  int runs = 1;  ///< the figures are means over that many seeds, from `seed` on
  bool json = false;
};

/// Prints the chosen policy's figures and beside them those of the others in the same run. Errors
/// go to `err`.
ExitCode SimulateTrace(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
