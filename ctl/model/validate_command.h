// swarmctl validate: checks a manifest, and what it names; starts nothing.
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
  bool cluster = false;  ///< check it as the operator does, which sees no files
  bool offline = false;  ///< look at nothing that the manifest names
  /// Looks into the data that the job names; empty: nothing does. Not called with `cluster` or
  /// `offline`.
  std::function<std::vector<api::FieldError>(const api::SwarmJob& job)> find_bad_data;
  bool json = false;     ///< print the job with all defaults, or the errors, as JSON
};

/// Prints the result to `out`, or the errors to `err`, one on each line (with json: all to `out`).
///
/// Unless told otherwise it looks at what the manifest names, on this machine and in buckets: the
/// model's config and the list of its weights, the tokenizer, and which files the data are. It
/// reads no weights, and no data.
ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
