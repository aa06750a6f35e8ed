// Which uris of a manifest are files of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace swarm::ctl {

/// The path that `uri` names: a path, or file:///PATH. None for other schemes and for an empty one.
inline std::optional<std::filesystem::path> LocalPath(std::string_view uri) {
  constexpr std::string_view kFile = "file://";
  if (uri.starts_with(kFile)) return std::filesystem::path(uri.substr(kFile.size()));
  if (uri.empty() || uri.find("://") != std::string_view::npos) return std::nullopt;
  return std::filesystem::path(uri);
}

}  // namespace swarm::ctl
