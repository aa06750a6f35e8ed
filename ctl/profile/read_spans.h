// Reads what the workers of a profile wrote (base/spans.h).
#pragma once

#include <filesystem>
#include <vector>

#include "base/status.h"
#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {

/// Of all workers that have a file in the folder, by name, without those that recorded nothing.
/// Errors: kNotFound (none recorded anything), kDataLoss (a file cannot be read; the message names
/// file and line).
Result<std::vector<WorkerSpans>> ReadSpans(const std::filesystem::path& folder);

}  // namespace swarm::ctl
