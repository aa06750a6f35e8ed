// Reads the manifest that a command is given.
#pragma once

#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::ctl {

/// Reads the manifest in a file ("-" is standard input), applies the overrides, and checks it. If
/// the file cannot be read, the path of the error is the file's name.
api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides);

}  // namespace swarm::ctl
