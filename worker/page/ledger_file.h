// Finds the lines of steps in ledger.jsonl, which may be long: by bisection, without reading the
// rest. The room of how that file is laid out on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/page/state/account.h"

namespace swarm::page {

/// The line of `step`, of the last step without one. The file is the trainer's, or missing. Its
/// steps rise from line to line.
StepAccount ReadAccount(const std::string& path, std::optional<std::uint64_t> step);

}  // namespace swarm::page
