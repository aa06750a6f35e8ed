// swarmctl validate: checks a manifest, starts nothing.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct ValidateOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  bool cluster = false;  ///< check it as the operator does; else check also that its files exist
  bool json = false;     ///< print the job with all defaults, or the errors, as JSON
};

/// Prints the result to `out`, or the errors to `err`, one on each line (with json: all to `out`).
ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
