// Small files, read and written as a whole.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace swarm {

/// The content of a file of at most 16 MiB.
Result<std::string> ReadFile(const std::filesystem::path& path);

/// Writes a file so that a reader sees the old content or the new one; `mode` are its permissions
/// from the beginning. Makes the folder if it is missing.
Status WriteFile(const std::filesystem::path& path, std::string_view content, mode_t mode = 0644);

}  // namespace swarm
