// The accumulators of workers that leave, on their way to an heir. The donor cuts them into pieces;
// the heir puts the pieces together and keeps them until the roster says which worker adopts them
// (docs/protocol.md, leaving). Not thread-safe; no thread, clock or socket.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/memory/account.h"

namespace swarm::stage {

/// The pieces of one group's sum, each small enough for a frame. `header` lacks group, offset and
/// count. At least one, also of a group without elements.
std::vector<std::pair<protocol::Parcel, Bytes>> CutParcel(const protocol::Parcel& header,
                                                          protocol::GroupIndex group,
                                                          const model::GradientSum& sum);

class Parcels {
 public:
  /// The account outlives this.
  explicit Parcels(MemoryAccount* account) : account_(account) {}

  /// One group's sum, whole.
  struct Part {
    protocol::GroupIndex group;
    Bytes elements;
    bool finite = true;
  };
  struct Whole {
    std::uint64_t level = 0;
    std::vector<protocol::Contribution> contributions;
    std::vector<Part> parts;  ///< ordered by group
  };

  /// Takes a piece. `group_bytes`: of each group that the parcel must have. Returns the parcel when
  /// this was its last piece. Errors: kDataLoss (a piece that fits nothing; it is not taken).
  Result<const Whole*> Add(const protocol::WorkerId& donor, const protocol::Parcel& piece,
                           const Bytes& payload,
                           const std::map<protocol::GroupIndex, std::uint64_t>& group_bytes);
  /// Null: it is not here, or not whole.
  const Whole* Find(const protocol::WorkerId& donor, protocol::Step step) const;
  void Drop(const protocol::WorkerId& donor, protocol::Step step);
  void DropUpTo(protocol::Step step);
  void Clear() { boxes_.clear(); }

 private:
  struct Box {
    struct Group {
      std::shared_ptr<std::byte[]> memory;
      MemoryCharge charge;
      std::map<std::uint64_t, std::uint64_t> pieces;  // by offset: bytes
      std::uint64_t bytes = 0;                        // that are here
    };
    std::map<protocol::GroupIndex, Group> groups;
    Whole whole;
    bool complete = false;
  };
  MemoryAccount* const account_;
  std::map<std::pair<protocol::WorkerId, protocol::Step>, Box> boxes_;
};

}  // namespace swarm::stage
