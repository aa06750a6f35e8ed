// The end of a worker's log, where the run keeps it on this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm::page {

/// At most `bytes` of the end of FOLDER/workers/WORKER.log, from the beginning of a line on.
/// Nothing: there is no such log, or `worker` is no name of a file.
std::optional<std::string> ReadLogTail(const std::string& folder, std::string_view worker,
                                       std::size_t bytes);

}  // namespace swarm::page
