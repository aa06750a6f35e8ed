// How a worker gets the state of the replicas that it joins. It fetches the state of one version,
// which they have pinned, and then the reduced gradient of every step that was decided since. It
// applies those as if it had taken part (docs/protocol.md, joining).
//
// Owned by one thread; no thread, clock or socket of its own. Each is driven by OnTick (at once,
// which sends the first requests, and then a few times a second), OnFetched and OnDonorLost, and
// calls `done` once, as the last thing that it does: `done` may destroy it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/checkpoint/tensor.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/join/piece_fetch.h"

namespace swarm::stage {

/// The state that a welcome names.
class StateFetch {
 public:
  /// For model::Stage::Load with the optimizer's state, at the welcome's version; keeps the memory
  /// of the whole state.
  using Done = std::function<void(Result<checkpoint::TensorLookup>)>;

  /// `region`: where this worker is. Donors elsewhere are asked only for what those there do not
  /// give.
  StateFetch(const protocol::Welcome& welcome, SendFetch send, Done done,
             MakeMemory make_memory = MakeHeapMemory, const std::string& region = {});

  void OnTick(Timepoint now);
  /// False: `fetched` does not belong to this fetch.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

 private:
  void Conclude();

  PieceFetch pieces_;
  Done done_;
};

/// The reduced gradients that a commit record names: those of one stage's groups.
class GradientFetch {
 public:
  struct Group {
    protocol::GroupIndex index;
    std::uint64_t bytes = 0;  ///< of the gradient
  };
  /// One buffer a group, in their order, aligned for any element; none if the record skips.
  using Done = std::function<void(Result<std::vector<Bytes>>)>;

  /// `donors`: replicas of the stage; `far`: those that are asked only for what the others do not
  /// give. `done` gets kInvalidArgument if the record lacks a group.
  GradientFetch(const protocol::CommitRecord& record, const std::vector<Group>& groups,
                std::vector<protocol::WorkerId> donors, SendFetch send, Done done,
                const std::set<protocol::WorkerId>& far = {});

  void OnTick(Timepoint now);
  /// False: `fetched` does not belong to this fetch.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

 private:
  void Conclude();

  std::vector<PieceFetch> groups_;
  Status misfit_;
  Done done_;
};

}  // namespace swarm::stage
