// Times as Kubernetes' objects contain them: UTC, whole seconds, 2026-11-21T14:30:00Z.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace swarm::api {

using WallTime = std::chrono::sys_seconds;

/// `time` without its fraction of a second.
inline WallTime WholeSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

/// "2026-11-21T14:30:00Z". Requires: within the years 1970 to 9999.
std::string FormatTime(WallTime time);

/// Reads RFC 3339. A fraction of a second is dropped, an offset is applied. None: the text is
/// malformed, or outside the years 1970 to 9999.
std::optional<WallTime> ParseTime(std::string_view text);

}  // namespace swarm::api
