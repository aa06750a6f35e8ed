// Large numbers of bytes as text.
#pragma once

#include <concepts>
#include <cstdio>
#include <string>

namespace swarm {

inline constexpr double kGibibyte = 1024.0 * 1024 * 1024;

/// Three digits: "1.5 GiB".
template <typename Number>
  requires std::integral<Number> || std::floating_point<Number>
std::string GibibytesText(Number bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GiB", static_cast<double>(bytes) / kGibibyte);
  return text;
}

}  // namespace swarm
