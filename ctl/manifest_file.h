// The manifest that a command was given.
#pragma once

#include <string>
#include <vector>

#include "api/field_error.h"
#include "api/swarmjob.h"

namespace swarm::ctl {

/// Reads, overrides and judges the manifest in a file; "-" is the standard input. A file that
/// cannot be read is an error with the file's name as path.
api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides);

}  // namespace swarm::ctl
