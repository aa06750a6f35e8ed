#include "operator/kube/timing/micro_time.h"

#include <array>
#include <cstdio>

#include "api/format/wall_time.h"

namespace swarm::kube {

std::string MicroTime(WallTime wall) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wall);
  const auto rest = std::chrono::floor<std::chrono::microseconds>(wall - seconds);
  std::string text = api::FormatTime(seconds);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ", static_cast<int>(rest.count()));
  text.replace(text.size() - 1, 1, fraction.data());  // of the Z at its end
  return text;
}

}  // namespace swarm::kube
