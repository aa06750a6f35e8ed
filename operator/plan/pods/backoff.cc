#include "operator/plan/pods/backoff.h"

#include <algorithm>

#include "base/rng.h"

namespace swarm::plan {

std::chrono::seconds BackOff(std::chrono::seconds first, std::chrono::seconds cap,
                             std::uint64_t attempts, std::string_view name) {
  if (attempts == 0) return std::chrono::seconds(0);
  constexpr std::uint64_t kDoublingsMax = 20;
  const auto doublings = std::min(attempts - 1, kDoublingsMax);
  const auto limit = std::max(cap, first);
  const auto wait = std::min(limit, first * (std::int64_t{1} << doublings));
  const double jitter = 0.8 + 0.4 * Rng(MixName(attempts, name)).Uniform();
  return std::chrono::seconds(std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(wait.count()) * jitter)));
}

}  // namespace swarm::plan
