#include "worker/model/stage.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "worker/checkpoint/pieces.h"

namespace swarm::model {

std::vector<ParameterSlot> Stage::SumSlots(Step, std::uint64_t group) const {
  std::vector<ParameterSlot> slots;
  std::ranges::copy_if(parameters(), std::back_inserter(slots),
                       [&](const ParameterSlot& slot) { return slot.group == group; });
  return slots;
}

std::vector<checkpoint::NamedTensor> Stage::Snapshot() const {
  std::vector<checkpoint::NamedTensor> tensors = State();
  for (checkpoint::NamedTensor& tensor : tensors) {
    auto kept = checkpoint::Keep(tensor);
    SWARM_CHECK(kept.ok(), kept.status().message());  // without its device, the process has no use
    tensor = *std::move(kept);
  }
  return tensors;
}

namespace {

/// The result of a call that takes a Done.
template <typename T>
Result<T> WaitFor(Stage& stage, const std::function<void(Done<T>)>& submit) {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> result = promise->get_future();
  submit([promise](Result<T> computed) { promise->set_value(std::move(computed)); });
  while (stage.Work()) {
  }
  return result.get();
}

Status CannotBeDivided() { return FailedPrecondition("this stage cannot be divided"); }
Status KeepsNoSums() { return FailedPrecondition("the sums of this stage do not stay with it"); }

}  // namespace

Result<ForwardResult> Stage::Forward(const TaskKey& key, Version version, const TokenBatch& tokens,
                                     const Bytes& input, bool keep_graph) {
  return WaitFor<ForwardResult>(*this, [&](Done<ForwardResult> done) {
    SubmitForward(key, version, tokens, input, keep_graph, std::move(done));
  });
}

Result<Bytes> Stage::Backward(const TaskKey& key, const Bytes& gradient) {
  ASSIGN_OR_RETURN(BackwardResult result,
                   WaitFor<BackwardResult>(*this, [&](Done<BackwardResult> done) {
                     SubmitBackward(key, gradient, std::move(done));
                   }));
  return std::move(result.gradient);
}

std::function<Result<GradientSum>()> Stage::BeginAccumulator(Step step, std::uint64_t group) {
  return [sum = Accumulator(step, group)] { return sum; };
}

Result<std::vector<double>> Stage::OwnNorms(Step, std::uint64_t) { return KeepsNoSums(); }
Status Stage::ApplyOwn(double, double, bool) { return KeepsNoSums(); }

Status Stage::Replace(const checkpoint::TensorLookup&) {
  return FailedPrecondition("this stage keeps the weights that it has");
}

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
  const auto digest = checkpoint::DigestState(State());
  SWARM_CHECK(digest.ok(), digest.status().message());
  return *digest;
}

}  // namespace swarm::model
