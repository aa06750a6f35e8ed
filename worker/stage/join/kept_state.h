// The state of a stage in a worker that the trainer has sent away: what it offers when it comes back
// as a new incarnation (docs/protocol.md, rule 17). Nothing else of the earlier incarnation is left.
#pragma once

#include <memory>
#include <vector>

#include "worker/checkpoint/pieces.h"
#include "worker/checkpoint/tensor.h"
#include "worker/protocol/messages/control.h"

namespace swarm::stage {

class KeptState {
 public:
  /// `tensors`: the whole state in memory of its own (model::Stage::Snapshot). Its digest is made
  /// here, of the bytes as they are. Errors: those of checkpoint::CutState.
  static Result<std::shared_ptr<const KeptState>> Make(protocol::StageIndex stage,
                                                       protocol::Version version,
                                                       std::vector<checkpoint::NamedTensor> tensors);

  const protocol::HeldState& held() const { return held_; }
  /// For model::Stage::Load. It keeps the state in memory.
  static checkpoint::TensorLookup LookUpIn(std::shared_ptr<const KeptState> state);

 private:
  protocol::HeldState held_;
  std::vector<checkpoint::NamedTensor> tensors_;  // sorted by name
};

}  // namespace swarm::stage
