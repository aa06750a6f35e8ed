#include "worker/stage/reduce/norms.h"

#include <functional>
#include <limits>
#include <span>

#include "base/parallel.h"
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

std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, protocol::Step step,
                                                     std::uint64_t group,
                                                     const model::GradientSum& own,
                                                     const Bytes& elements,
                                                     const std::vector<bool>& held, int threads) {
  std::vector<protocol::TensorNorm> norms;
  std::vector<std::function<double()>> squares;
  const std::vector<model::ParameterSlot> slots = stage.SumSlots(step, group);
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const model::ParameterSlot& slot = slots[index];
    if (slot.name == model::kBasisName) continue;
    if (own.finite && !held.empty() && !held[index]) continue;
    norms.push_back({slot.name, std::numeric_limits<double>::quiet_NaN()});
    if (!own.squared_norms.empty() && elements.data() == own.elements.data()) {
      squares.emplace_back([&, index] { return own.squared_norms[index]; });
      continue;
    }
    squares.emplace_back([&, index, nan = norms.back().squared] {
      if (own.type == checkpoint::ElementType::kF32) {
        return optim::SquaredNorm(PartOf<float>(elements, slot));
      }
      if (!own.finite) return nan;
      return optim::SquaredNorm(PartOf<std::int64_t>(elements, slot), own.exponents[index]);
    });
  }
  ForEachOn(threads, norms.size(), [&](std::size_t i) { norms[i].squared = squares[i](); });
  return norms;
}

}  // namespace swarm::stage
