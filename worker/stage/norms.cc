#include "worker/stage/norms.h"

#include "worker/optim/norm.h"

namespace swarm::stage {

std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, std::uint64_t group,
                                                     std::span<const float> gradient) {
  std::vector<protocol::TensorNorm> norms;
  for (const model::ParameterSlot& slot : stage.parameters()) {
    if (slot.group != group) continue;
    norms.push_back({slot.name, optim::SquaredNorm(gradient.subspan(slot.offset, slot.count))});
  }
  return norms;
}

}  // namespace swarm::stage
