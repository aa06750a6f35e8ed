#include "worker/stage/reduce/norms.h"

#include <limits>
#include <span>

#include "worker/model/start/start.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::stage {
namespace {

template <typename T>
std::span<const T> PartOf(const Bytes& elements, const model::ParameterSlot& slot) {
  return {reinterpret_cast<const T*>(elements.data()) + slot.offset, slot.count};
}

}  // namespace

std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, std::uint64_t group,
                                                     const model::GradientSum& own,
                                                     const Bytes& elements,
                                                     const std::vector<bool>& held) {
  std::vector<protocol::TensorNorm> norms;
  std::size_t in_group = 0;
  for (const model::ParameterSlot& slot : stage.parameters()) {
    if (slot.group != group) continue;
    const std::size_t index = in_group++;
    if (slot.name == model::kBasisName) continue;
    if (own.finite && !held.empty() && !held[index]) continue;
    double squared = std::numeric_limits<double>::quiet_NaN();
    if (own.type == checkpoint::ElementType::kF32) {
      squared = optim::SquaredNorm(PartOf<float>(elements, slot));
    } else if (own.finite) {
      squared = optim::SquaredNorm(PartOf<std::int64_t>(elements, slot), own.exponents[index]);
    }
    norms.push_back({slot.name, squared});
  }
  return norms;
}

}  // namespace swarm::stage
