// Reads the manifest that a command is given.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::ctl {

/// The values in a file ("-" is standard input) as the user wrote them, with the overrides. If the
/// file cannot be read, the path of the error is the file's name.
api::Checked<nlohmann::json> ReadManifest(const std::string& file,
                                          const std::vector<std::string>& overrides);

/// The job that these values describe, checked. Stages that are Auto are one.
api::Checked<api::SwarmJob> LoadManifest(const std::string& file,
                                         const std::vector<std::string>& overrides);

}  // namespace swarm::ctl
