// The memory that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace swarm {

/// Bytes: the machine's memory, or less where a limit of this process's control groups says so (a
/// container's memory limit).
std::uint64_t UsableMemory();

/// For UsableMemory, and its tests: the limit of one control group, from memory.max (version 2) or
/// memory.limit_in_bytes (version 1). Nothing: there is no limit.
std::optional<std::uint64_t> FindMemoryLimit(const std::filesystem::path& folder);

}  // namespace swarm
