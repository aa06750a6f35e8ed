// One participant's part in one reduce: the sum of all participants' accumulators, by a chunked
// reduce-scatter and all-gather. Every participant owns a shard; it receives the others'
// contributions to it, adds them in the order of the participants, and sends the sum to all. So
// every element is summed by one worker in one order, and all results are equal bit for bit. What
// an element is, float32 or int64, the contribution says; no other line depends on it.
//
// Bytes sent by a worker: 2 (R-1)/R of the group, as a ring has, in two hops instead of 2.
// Chunks flow independently: the gather of one begins while others are still scattered.
//
// Not thread-safe; has no clock and no socket. Source: butterfly all-reduce as in Moshpit SGD and
// hivemind; docs/protocol.md, rule 11.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages.h"

namespace swarm::stage {

/// Memory for sums, used again: fresh pages cost as much as the sum itself. Thread-safe; buffers
/// may outlive the pool.
class SumBuffers {
 public:
  /// So many bytes, aligned to 16, with whatever they held. Return to the pool when the last owner
  /// lets go; the pool keeps two of each size asked for.
  std::shared_ptr<std::byte[]> Take(std::size_t size);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_ = MakeShelf();
  static std::shared_ptr<Shelf> MakeShelf();
};

class GroupReduce {
 public:
  /// Sends a chunk to a participant; the payload stays valid as long as it is held.
  using SendChunk =
      std::function<void(const protocol::WorkerId& to, protocol::ReduceChunk chunk, Bytes payload)>;

  static constexpr std::uint64_t kChunkBytes = 1024 * 1024;

  /// `own` is this worker's contribution. Requires: `self` is a participant.
  GroupReduce(const protocol::Reduce& reduce, const protocol::WorkerId& self,
              model::GradientSum own, SumBuffers& buffers, SendChunk send);

  /// Sends this worker's contributions. With one participant the reduce is done at once.
  void Start();

  /// Takes a chunk of this reduce. Errors: kDataLoss for a chunk that does not fit (harmless:
  /// nothing was taken); a repeated chunk is ignored.
  Status OnChunk(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk,
                 const Bytes& payload);

  bool done() const { return missing_elements_ == 0; }
  /// The sum, of the contribution's type; complete when done(). Shares the memory.
  Bytes result() const;
  const model::GradientSum& own() const { return own_; }
  const protocol::Reduce& reduce() const { return reduce_; }

 private:
  struct OwnChunk {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::vector<Bytes> contributions;  // by participant; own is not filled
    std::size_t present = 0;
    bool summed = false;
  };
  std::size_t ranks() const { return reduce_.participants.size(); }
  std::uint64_t ShardBegin(std::size_t rank) const;
  std::uint64_t chunk_elements() const { return kChunkBytes / element_bytes_; }
  protocol::ReduceChunk Header(protocol::ReduceChunk::Phase phase, std::uint64_t offset) const;
  Status Scatter(std::size_t from, const protocol::ReduceChunk& chunk, const Bytes& payload);
  Status Gather(std::size_t from, const protocol::ReduceChunk& chunk, const Bytes& payload);
  void Sum(OwnChunk& chunk);

  const protocol::Reduce reduce_;
  const model::GradientSum own_;
  const std::uint64_t element_bytes_;
  const std::uint64_t elements_;
  const SendChunk send_;
  std::size_t rank_ = 0;
  std::shared_ptr<std::byte[]> result_;
  std::vector<OwnChunk> own_chunks_;
  std::vector<bool> gathered_;  // by chunk number over the whole group, others' shards
  std::uint64_t missing_elements_ = 0;
};

}  // namespace swarm::stage
