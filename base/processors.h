// The processors that this process may use, and manners toward those that share them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace swarm {

/// The processors that this process can keep busy: those of its affinity, or fewer where a quota of
/// its control groups says so (a container's CPU limit). At least 1.
std::uint64_t UsableProcessors();

/// For UsableProcessors, and its tests: the least quota among the control group `group` (such as
/// "/a/b") and its parents below `root`, in processors. Reads cpu.max (version 2) or
/// cpu.cfs_quota_us (version 1). Nothing: there is no quota.
std::optional<double> FindProcessorQuota(const std::filesystem::path& root, std::string_view group);

/// Makes waiting OpenMP threads sleep soon, by GOMP_SPINCOUNT, in the programs that this one
/// starts. libgomp lets them spin for milliseconds, which takes the processor from whoever has
/// work. False: the environment says how they wait, and stays as it is. Call it before there are
/// threads.
bool AskForShortSpins();

/// The same for this program. libgomp reads the variable before main begins, so this starts the
/// program again (once). Call it first in main, with its argv.
void RunWithShortSpins(char** argv);

}  // namespace swarm
