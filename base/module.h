// Libraries of ours that are opened at run time, when a job first needs one.
#pragma once

#include <string>

#include "base/status.h"

namespace swarm {

/// The function `entry` of lib/FILE beside the folder of the program. The module gets a symbol
/// scope of its own, and is never closed. Errors: kNotFound (no such module), kInternal (no such
/// entry).
Result<void*> FindInModule(const std::string& file, const char* entry);

}  // namespace swarm
