#include "ctl/model/threads.h"

#include <algorithm>
#include <cstdint>

#include "base/processors.h"
#include "worker/model/layout/layout.h"

namespace swarm::ctl {

int ComputeThreads(int wanted, const api::DecoderConfig& config) {
  constexpr std::uint64_t kParametersPerThread = 10'000'000;
  if (wanted > 0) return wanted;
  const std::uint64_t cores = UsableProcessors();
  const auto layout = model::ComputeParameterLayout(config, 0, 1);
  if (!layout.ok()) return static_cast<int>(cores);
  std::uint64_t parameters = 0;
  for (const model::ParameterGroup& group : layout->groups) parameters += group.count;
  return static_cast<int>(std::clamp<std::uint64_t>(parameters / kParametersPerThread, 1, cores));
}

}  // namespace swarm::ctl
