// Reads the description of a fleet (bench/fleet has examples, docs/fleet.md the fields).
#pragma once

#include <filesystem>

#include "api/format/field_error.h"
#include "ctl/simulate/fleet/fleet.h"

namespace swarm::ctl {

/// Reads YAML or JSON, fills in the defaults, reads the traces that it names (relative to the
/// file), and checks all. Returns all errors at once.
api::Checked<Fleet> ReadFleet(const std::filesystem::path& path);

/// The same file for a plan, which brings its own job: `job` may be there, and is not read.
api::Checked<Fleet> ReadMachines(const std::filesystem::path& path);

}  // namespace swarm::ctl
