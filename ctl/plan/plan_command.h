// swarmctl plan: how a job is best trained on a described fleet.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"
#include "planner/search.h"

namespace swarm::ctl {

struct PlanOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  std::string fleet;  ///< the file
  planner::Goal goal = planner::Goal::kTokensPerSecond;
  std::string write;  ///< written: the manifest with the best plan in it; empty: nothing
  /// Mb/s, as in "10,50,200": how fast the job trains where all machines have lines of these rates,
  /// in each manner, is printed instead of plans. Empty: it is not. Not with `goal` and `write`.
  std::string link_rates;
  std::string plot;  ///< with link_rates: the SVG to write; empty: none
  bool json = false;
};

/// Prints the best plan and the next best ones. What the manifest says is kept, what it leaves out
/// is searched. A job that fits nowhere is an error (kFailed), with what would make it fit.
ExitCode PlanJob(const PlanOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
