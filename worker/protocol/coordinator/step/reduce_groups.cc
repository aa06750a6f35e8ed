#include "worker/protocol/coordinator/step/reduce_groups.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

bool ReduceGroup::Has(StageIndex stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head,
                                             bool shared_basis) {
  std::vector<ReduceGroup> groups;
  for (std::uint64_t s = 0; s < stages; ++s) {
    groups.push_back({GroupIndex(s), {StageIndex(s)}});
  }
  if (tied_head) {
    ReduceGroup tied{GroupIndex(stages), {StageIndex(0)}};
    if (stages > 1) tied.stages.push_back(StageIndex(stages - 1));
    groups.push_back(std::move(tied));
  }
  if (shared_basis) {
    ReduceGroup shared{GroupIndex(groups.size()), {}};
    for (std::uint64_t s = 0; s < stages; ++s) shared.stages.push_back(StageIndex(s));
    groups.push_back(std::move(shared));
  }
  return groups;
}

}  // namespace swarm::protocol
