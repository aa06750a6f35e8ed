#include "base/short_time.h"

#include <cmath>
#include <cstdio>

namespace swarm {

std::string ShortTime(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = std::lround(seconds);
  char text[32];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%lds", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ldm%02lds", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  }
  return text;
}

}  // namespace swarm
