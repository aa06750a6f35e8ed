#include "worker/model/adapters.h"

#include <algorithm>
#include <utility>

#include "worker/model/start/start.h"

namespace swarm::model {

checkpoint::TensorLookup WithNewAdapters(checkpoint::TensorLookup weights,
                                         const api::DecoderConfig& config, std::uint64_t seed,
                                         std::vector<ParameterSlot> adapters) {
  return [weights = std::move(weights), config, seed, adapters = std::move(adapters)](
             const std::string& name) -> Result<checkpoint::NamedTensor> {
    const auto slot = std::ranges::find(adapters, name, &ParameterSlot::name);
    if (slot == adapters.end()) return weights(name);
    std::vector<float> values(slot->count);
    FillStart(seed, config, *slot, values);
    return checkpoint::NamedTensor{name, checkpoint::ElementType::kF32, slot->shape,
                                   Bytes::Copy(values.data(), values.size() * sizeof(float))};
  };
}

}  // namespace swarm::model
