// The data that a replica gives to workers that join: the state that it has pinned for them, and
// reduced gradients of decided steps, both in pieces (docs/protocol.md, joining).
//
// Not thread-safe; has no thread, clock or socket. Serving a piece costs a look-up, or a copy of
// the piece where it lies in several tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "worker/checkpoint/pieces.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/memory/account.h"

namespace swarm::stage {

class Donor {
 public:
  /// The reduced gradient of a group, as the reduce `k` gave it; null: this worker does not have it
  /// (any more).
  using FindGradient = std::function<std::shared_ptr<const checkpoint::PiecedBytes>(
      protocol::Generation, protocol::Step, protocol::GroupIndex, const protocol::Attempt& k)>;

  /// The account outlives this.
  Donor(MemoryAccount* account, FindGradient find_gradient);

  /// Gives `state` (checkpoint::CutState of a snapshot; make it off the control loop) to workers
  /// that ask for `version`. Keeps two states if the account's share has room for two, so that a
  /// new one can be pinned while workers still fetch the old one; one more drops the one that was
  /// pinned first. One state is always kept: no worker could join without it. `in_memory`: its
  /// bytes that are not mapped from a disk; absent: all of them.
  void Pin(protocol::Generation generation, protocol::Version version,
           std::shared_ptr<const checkpoint::PiecedBytes> state,
           std::optional<std::uint64_t> in_memory = {});
  void Unpin(protocol::Generation generation, protocol::Version version);
  void Clear() { pinned_.clear(); }
  std::size_t pinned() const { return pinned_.size(); }

  struct Answer {
    protocol::Fetched message;
    Bytes payload;
  };
  /// Total: answers with an error in words if the piece is not here.
  Answer OnFetch(const protocol::Fetch& fetch) const;

 private:
  struct Pinned {
    protocol::Generation generation;
    protocol::Version version;
    std::shared_ptr<const checkpoint::PiecedBytes> state;
    MemoryCharge charge;
  };
  std::shared_ptr<const checkpoint::PiecedBytes> Find(const protocol::Fetch& fetch) const;

  MemoryAccount* const account_;
  const FindGradient find_gradient_;
  std::vector<Pinned> pinned_;  ///< in the order of pinning
};

}  // namespace swarm::stage
