// The machines of a way, by stage and group, and whether they have room for it. Pure.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "planner/model_costs.h"
#include "planner/predict.h"

namespace swarm::planner {

/// Machines of each group together.
inline std::uint64_t MachinesIn(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// Calls call(stage, group) for those of which the way has machines.
template <typename Call>
void EachPlace(const Way& way, const Call& call) {
  for (std::size_t s = 0; s < way.runs.size(); ++s) {
    for (std::size_t g = 0; g < way.machines[s].size(); ++g) {
      if (way.machines[s][g] > 0) call(s, g);
    }
  }
}

/// Whether all machines have the memory that the way needs at least. `model`: with its residency.
bool HasRoom(const Way& way, const ModelCosts& model, const Fleet& fleet);

}  // namespace swarm::planner
