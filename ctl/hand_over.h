// How swarmctl gets what most of its commands do without: by going on as another program.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace swarm::ctl {

/// Where lib/PROGRAM beside the folder of this program is.
std::filesystem::path InLib(const std::string& program);

/// Goes on as lib/PROGRAM beside the folder of this program, with the same arguments and in the
/// same process. Call it before there are threads and open files. Returns only if it fails:
/// kNotFound (there is no such file), kPermissionDenied (it cannot be run).
Status HandOver(const std::string& program, char** argv);

}  // namespace swarm::ctl
