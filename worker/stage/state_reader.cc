#include "worker/stage/state_reader.h"

#include <utility>

#include "base/status.h"
#include "worker/checkpoint/pieces.h"

namespace swarm::stage {

namespace {

/// Lets go of the state before it returns.
Digest DigestOf(StateReader::State state) {
  const auto digest = checkpoint::DigestState(state);
  SWARM_CHECK(digest.ok(), digest.status().message());
  return *digest;
}

}  // namespace

void StateReader::Post(State state, std::function<std::function<void()>(State)> read) {
  ++queued_;
  loop_.Post([this, state = std::move(state), read = std::move(read)]() mutable {
    const std::function<void()> rest = read(std::exchange(state, {}));
    ++finished_;
    --queued_;
    rest();
  });
}

void StateReader::ComputeDigest(State state, std::function<void(const Digest&)> done) {
  Post(std::move(state), [done = std::move(done)](State read) {
    return [done, digest = DigestOf(std::move(read))] { done(digest); };
  });
}

void StateReader::ComputeDigests(
    State state, std::vector<State> parts,
    std::function<void(const Digest&, const std::vector<Digest>&)> done) {
  // All are read before any is let go of: the next update waits for all of them.
  const auto digests = std::make_shared<std::vector<Digest>>();
  for (State& part : parts) {
    Post(std::move(part), [digests](State read) {
      digests->push_back(DigestOf(std::move(read)));
      return [] {};
    });
  }
  ComputeDigest(std::move(state), [digests, done = std::move(done)](const Digest& digest) {
    done(digest, *digests);
  });
}

void StateReader::MakeCopy(State state, std::function<void(std::shared_ptr<const Copy>)> done) {
  Post(std::move(state), [this, done = std::move(done)](State read) {
    std::uint64_t bytes = 0;
    for (checkpoint::NamedTensor& tensor : read) {
      auto copied = checkpoint::CopyToHost(tensor);
      SWARM_CHECK(copied.ok(), copied.status().message());
      tensor = *std::move(copied);
      bytes += tensor.data.size();
    }
    auto copy = std::make_shared<Copy>(std::move(read),
                                       MemoryCharge(&account_, MemoryKind::kCopies, bytes));
    return [done, copy = std::move(copy)] { done(copy); };
  });
}

std::shared_future<void> StateReader::Drain() {
  const auto drained = std::make_shared<std::promise<void>>();
  loop_.Post([drained] { drained->set_value(); });
  return drained->get_future().share();
}

}  // namespace swarm::stage
