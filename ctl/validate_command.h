// swarmctl validate: checks a manifest, starts nothing.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct ValidateOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  bool cluster = false;  ///< check it as the operator does; else check also that its files exist
  /// Looks into the data that the job names; empty: nothing does. Not called with `cluster`.
  std::function<std::vector<api::FieldError>(const api::SwarmJob& job)> find_bad_data;
  bool json = false;     ///< print the job with all defaults, or the errors, as JSON
};

/// Prints the result to `out`, or the errors to `err`, one on each line (with json: all to `out`).
ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
