#include "worker/model/stage.h"

#include "worker/checkpoint/pieces.h"

namespace swarm::model {

std::vector<checkpoint::NamedTensor> Stage::Snapshot() const {
  std::vector<checkpoint::NamedTensor> tensors = State();
  for (checkpoint::NamedTensor& tensor : tensors) {
    tensor.data = Bytes::Copy(tensor.data.data(), tensor.data.size());
  }
  return tensors;
}

Digest Stage::StateDigest() const {
  const auto pieces = checkpoint::CutState(State());
  SWARM_CHECK(pieces.ok(), pieces.status().message());
  return pieces->digest();
}

}  // namespace swarm::model
