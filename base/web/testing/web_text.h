// For tests: a file of web/ as the build puts it into a program (cmake/embed.cmake).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"

namespace swarm::web {

/// The file at a browser's path, with what two documents have in common in its place.
inline std::string WebText(std::string_view path) {
  const std::string folder = std::string(SWARM_SOURCE_DIR) + "/web";
  const auto text = ReadFile(folder + std::string(path)), head = ReadFile(folder + "/head.html");
  EXPECT_TRUE(text.ok() && head.ok()) << path;
  if (!text.ok() || !head.ok()) return "";
  const std::string mark = "<!-- head.html -->\n";
  std::string whole = *text;
  if (const std::size_t at = whole.find(mark); at != whole.npos) {
    whole.replace(at, mark.size(), *head);
  }
  return whole;
}

}  // namespace swarm::web
