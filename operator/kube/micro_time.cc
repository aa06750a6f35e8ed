#include "operator/kube/micro_time.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace swarm::kube {

std::string MicroTime(WallTime wall) {
  using std::chrono::microseconds;
  const auto since = std::chrono::floor<microseconds>(wall).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t whole = static_cast<std::time_t>(seconds.count());
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 32> date{};
  const std::size_t length = std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ",
                static_cast<int>((since - seconds).count()));
  return std::string(date.data(), length) + fraction.data();
}

}  // namespace swarm::kube
