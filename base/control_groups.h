// The control groups of this process, whose limits are those of a container.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace swarm {

using LookAtFolder = std::function<void(const std::filesystem::path& folder)>;

/// The folders of the control group `group` (such as "/a/b") and its parents, from `root` down.
void ForEachFolder(const std::filesystem::path& root, std::string_view group,
                   const LookAtFolder& look);

/// The folders of this process's control groups and their parents: those of version 2, and those of
/// version 1 that `controller` ("cpu", "memory") governs.
void ForEachControlGroup(std::string_view controller, const LookAtFolder& look);

}  // namespace swarm
