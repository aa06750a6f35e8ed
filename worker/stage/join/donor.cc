#include "worker/stage/join/donor.h"

#include <string>
#include <utility>

namespace swarm::stage {

using protocol::FetchKind;

namespace {

constexpr std::size_t kPinnedMax = 2;

bool IsOfState(FetchKind kind) {
  return kind == FetchKind::kStateIndex || kind == FetchKind::kState;
}

bool IsIndex(FetchKind kind) {
  return kind == FetchKind::kStateIndex || kind == FetchKind::kGradientIndex;
}

}  // namespace

Donor::Donor(MemoryAccount* account, FindGradient find_gradient)
    : account_(account), find_gradient_(std::move(find_gradient)) {}

void Donor::Pin(protocol::Generation generation, protocol::Version version,
                std::shared_ptr<const checkpoint::PiecedBytes> state,
                std::optional<std::uint64_t> in_memory) {
  Unpin(generation, version);
  MemoryCharge charge(account_, MemoryKind::kCopies, in_memory.value_or(state->bytes()));
  const auto is_full = [&] {
    return pinned_.size() == kPinnedMax ||
           account_->bytes(MemoryKind::kCopies) > account_->share(MemoryKind::kCopies);
  };
  while (!pinned_.empty() && is_full()) pinned_.erase(pinned_.begin());
  pinned_.push_back({generation, version, std::move(state), std::move(charge)});
}

void Donor::Unpin(protocol::Generation generation, protocol::Version version) {
  std::erase_if(pinned_, [&](const Pinned& pinned) {
    return pinned.generation == generation && pinned.version == version;
  });
}

std::shared_ptr<const checkpoint::PiecedBytes> Donor::Find(const protocol::Fetch& fetch) const {
  if (!IsOfState(fetch.kind)) {
    const protocol::Step step(fetch.version.value);
    return find_gradient_(fetch.generation, step, fetch.group, fetch.k);
  }
  for (const Pinned& pinned : pinned_) {
    if (pinned.generation == fetch.generation && pinned.version == fetch.version) {
      return pinned.state;
    }
  }
  return nullptr;
}

Donor::Answer Donor::OnFetch(const protocol::Fetch& fetch) const {
  Answer answer{.message = {.generation = fetch.generation,
                            .kind = fetch.kind,
                            .version = fetch.version,
                            .group = fetch.group,
                            .k = fetch.k,
                            .piece = fetch.piece}};
  const auto found = Find(fetch);
  const std::string number = std::to_string(fetch.version.value);
  if (found == nullptr) {
    answer.message.error = IsOfState(fetch.kind) ? "version " + number + " is not pinned"
                                                 : "no reduced gradient of step " + number;
    return answer;
  }
  answer.message.pieces = found->count();
  if (IsIndex(fetch.kind)) {
    answer.payload = found->index();
  } else if (fetch.piece < found->count()) {
    answer.payload = found->Piece(fetch.piece);
  } else {
    answer.message.error = "piece " + std::to_string(fetch.piece) + " of " +
                           std::to_string(found->count()) + " pieces";
  }
  return answer;
}

}  // namespace swarm::stage
