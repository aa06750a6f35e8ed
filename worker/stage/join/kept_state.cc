#include "worker/stage/join/kept_state.h"

#include <algorithm>
#include <string>
#include <utility>

namespace swarm::stage {

Result<std::shared_ptr<const KeptState>> KeptState::Make(
    protocol::StageIndex stage, protocol::Version version,
    std::vector<checkpoint::NamedTensor> tensors) {
  auto state = std::make_shared<KeptState>();
  state->tensors_ = std::move(tensors);
  ASSIGN_OR_RETURN(const auto pieces, checkpoint::CutState(state->tensors_));
  state->held_ = {stage, version, pieces.digest()};
  return std::shared_ptr<const KeptState>(std::move(state));
}

checkpoint::TensorLookup KeptState::LookUpIn(std::shared_ptr<const KeptState> state) {
  return [state = std::move(state)](const std::string& name) -> Result<checkpoint::NamedTensor> {
    const auto& tensors = state->tensors_;
    const auto found = std::ranges::lower_bound(tensors, name, {}, &checkpoint::NamedTensor::name);
    if (found == tensors.end() || found->name != name) {
      return NotFound("the kept state has no tensor " + name);
    }
    return *found;
  };
}

}  // namespace swarm::stage
