#include "worker/stage/state_reader.h"

#include <utility>

#include "base/status.h"
#include "worker/checkpoint/pieces.h"

namespace swarm::stage {

namespace {

/// Lets go of the state before it returns.
Result<Digest> DigestOf(StateReader::State state) { return checkpoint::DigestState(state); }

}  // namespace

void StateReader::Post(State state, std::function<Result<Rest>(State)> read) {
  ++queued_;
  loop_.Post([this, state = std::move(state), read = std::move(read)]() mutable {
    const Result<Rest> rest = read(std::exchange(state, {}));
    ++finished_;
    --queued_;
    rest.ok() ? (*rest)() : unreadable_(rest.status());
  });
}

void StateReader::ComputeDigest(State state, std::function<void(const Digest&)> done) {
  Post(std::move(state), [done = std::move(done)](State read) -> Result<Rest> {
    ASSIGN_OR_RETURN(const Digest digest, DigestOf(std::move(read)));
    return Rest([done, digest] { done(digest); });
  });
}

void StateReader::ComputeDigests(
    State state, std::vector<State> parts,
    std::function<void(const Digest&, const std::vector<Digest>&)> done) {
  // All are read before any is let go of: the next update waits for all of them.
  const auto digests = std::make_shared<std::vector<Digest>>();
  for (State& part : parts) {
    Post(std::move(part), [digests](State read) -> Result<Rest> {
      ASSIGN_OR_RETURN(const Digest digest, DigestOf(std::move(read)));
      digests->push_back(digest);
      return Rest([] {});
    });
  }
  ComputeDigest(std::move(state),
                [digests, count = parts.size(), done = std::move(done)](const Digest& digest) {
                  if (digests->size() == count) done(digest, *digests);
                });
}

void StateReader::MakeCopy(State state, std::function<void(std::shared_ptr<const Copy>)> done) {
  const auto copy_all = [this, done = std::move(done)](State read) -> Result<Rest> {
    std::uint64_t bytes = 0;
    for (checkpoint::NamedTensor& tensor : read) {
      ASSIGN_OR_RETURN(tensor, checkpoint::Keep(tensor, &bytes));
    }
    auto copy = std::make_shared<Copy>(std::move(read), bytes,
                                       MemoryCharge(&account_, MemoryKind::kCopies, bytes));
    return Rest([done, copy = std::move(copy)] { done(copy); });
  };
  Post(std::move(state), copy_all);
}

std::shared_future<void> StateReader::Drain() {
  const auto drained = std::make_shared<std::promise<void>>();
  loop_.Post([drained] { drained->set_value(); });
  return drained->get_future().share();
}

}  // namespace swarm::stage
