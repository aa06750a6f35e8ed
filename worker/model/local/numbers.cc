#include "worker/model/local/numbers.h"

#include <algorithm>

#include "worker/tier/scratch_file.h"

namespace swarm::model {

Result<Numbers> Numbers::Make(const std::vector<ParameterGroup>& groups,
                              const std::string& folder) {
  Numbers numbers;
  for (const ParameterGroup& group : groups) {
    ASSIGN_OR_RETURN(auto memory, tier::MapScratchFile(folder, group.count * sizeof(float)));
    numbers.groups_.push_back({std::move(memory), group.count});
  }
  return numbers;
}

std::span<float> Numbers::Of(std::size_t group) const {
  const Group& of = groups_.at(group);
  return {reinterpret_cast<float*>(of.memory.get()), of.count};
}

std::span<float> Numbers::Of(const ParameterSlot& slot) const {
  return Of(slot.group).subspan(slot.offset, slot.count);
}

Bytes Numbers::Share(std::size_t group) const {
  const Group& of = groups_.at(group);
  return Bytes::Wrap(of.memory.get(), of.count * sizeof(float), of.memory);
}

bool Numbers::IsShared() const {
  return std::ranges::any_of(groups_, [](const Group& g) { return g.memory.use_count() > 1; });
}

void Numbers::CopyFrom(const Numbers& other) {
  for (std::size_t g = 0; g < groups(); ++g) std::ranges::copy(other.Of(g), Of(g).begin());
}

void Numbers::Add(const Numbers& other, float factor) {
  for (std::size_t g = 0; g < groups(); ++g) {
    const std::span<const float> from = other.Of(g);
    const std::span<float> to = Of(g);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
  }
}

}  // namespace swarm::model
