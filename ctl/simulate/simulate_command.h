// swarmctl simulate: replays a trace of machines that come and go against the balancing rules.
// Four policies: Moves is what swarm-worker does, Copies is a study of what it could do with memory
// for states of other stages, Periodic is SWARM's rule, and with None no worker moves.
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
  std::string policy = "Moves";  ///< Moves, Copies, Periodic or None: printed first
  double period_seconds = 300;   ///< Periodic
  double switch_seconds = 1;     ///< Copies, as the next two
  int copies = 2;
  double copy_drag = 0.05;
  std::uint64_t seed = 1;
  int runs = 1;  ///< prints means over so many seeds, from `seed` on
  bool json = false;
};

/// Prints the results of all policies, the chosen one first. Errors go to `err`.
ExitCode SimulateTrace(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
