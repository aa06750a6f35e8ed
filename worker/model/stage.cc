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

namespace {

Status CannotBeDivided() { return FailedPrecondition("this stage cannot be divided"); }

}  // namespace

bool Stage::HoldsPart(std::uint64_t) const { return false; }
std::uint64_t Stage::MomentBytes(std::uint64_t) const { return 0; }
std::vector<checkpoint::NamedTensor> Stage::PartState(std::uint64_t) const { return {}; }
Status Stage::TakeMoments(std::uint64_t, const Bytes&) { return CannotBeDivided(); }
Result<std::vector<Bytes>> Stage::BeginApply(std::span<const Bytes>, double, double, bool,
                                             const Division&) {
  return CannotBeDivided();
}
Status Stage::FinishApply(std::span<const Bytes>) { return CannotBeDivided(); }

Digest Stage::StateDigest() const {
  const auto pieces = checkpoint::CutState(State());
  SWARM_CHECK(pieces.ok(), pieces.status().message());
  return pieces->digest();
}

}  // namespace swarm::model
