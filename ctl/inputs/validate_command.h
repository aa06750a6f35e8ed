// swarmctl validate: checks a manifest, and what it names; starts nothing.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct ValidateOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  bool cluster = false;  ///< check it as the operator does, which sees no files
  bool offline = false;  ///< look at nothing that the manifest names
  bool json = false;     ///< print the job with all defaults, or the errors, as JSON
};

/// Prints the result to `out`, or the errors to `err`, one on each line (with json: all to `out`).
///
/// Unless told otherwise it looks at what the manifest names, on this machine and in buckets: the
/// model's config and the list of its weights, the tokenizer, which files the data are, and the
/// first document of each that lies on this machine. It reads no weights, and no data in buckets.
ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace swarm::ctl
