// One participant's part in one reduce: the sum of all participants' accumulators, by a chunked
// reduce-scatter and all-gather. Every participant owns a shard; it receives the others'
// contributions to it, adds them in the order of the participants, and sends the sum to all. So
// every element is summed by one worker in one order, and all results are equal bit for bit. The
// contribution says whether elements are float32 or int64; no other line depends on it.
//
// Bytes sent by a worker: 2 (R-1)/R of the group, as a ring has, in two hops instead of 2.
// Chunks flow independently: the gather of one begins while others are still scattered.
//
// A participant that has not begun has to keep what comes. So it gets kEarlyBytes from all others
// together, and the rest once it has sent a chunk itself: that shows that it has begun.
//
// With a codec, floats are sent as its payloads, and the owner of a shard takes the sum as the
// others decode it. The rounding error, of a contribution or of a sum, is the worker's residual,
// which it adds to its contribution to the next step. A worker's residual goes when the worker
// goes: it is only as large as one step's rounding.
//
// Not thread-safe; has no clock and no socket. Source: butterfly all-reduce as in Moshpit SGD and
// hivemind; docs/protocol.md, rule 11.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/reduce/reduce_codec.h"

namespace swarm::stage {

/// Memory for sums, used again: fresh pages cost as much as the sum itself. Thread-safe; buffers
/// may outlive the pool.
class SumBuffers {
 public:
  /// `size` bytes, aligned to 16, not initialised. They return to the pool when the last owner
  /// releases them; the pool keeps two of each size asked for.
  std::shared_ptr<std::byte[]> Take(std::size_t size);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_ = MakeShelf();
  static std::shared_ptr<Shelf> MakeShelf();
};

/// How floats are sent.
struct Thinning {
  const ReduceCodec* codec = nullptr;  ///< null: as they are. Outlives the reduce.
  Bytes residual = {};                 ///< of this worker and group; empty: none yet
};

class GroupReduce {
 public:
  /// Sends a chunk to a participant; the payload stays valid as long as it is held.
  using SendChunk =
      std::function<void(const protocol::WorkerId& to, protocol::ReduceChunk chunk, Bytes payload)>;

  static constexpr std::uint64_t kChunkBytes = 1024 * 1024;
  /// What all others together send to a participant that may not have begun; at least a chunk each.
  static constexpr std::uint64_t kEarlyBytes = 16 * kChunkBytes;

  /// `own` is this worker's contribution. Requires: `self` is a participant; floats where there is
  /// a codec.
  GroupReduce(const protocol::Reduce& reduce, const protocol::WorkerId& self,
              model::GradientSum own, SumBuffers& buffers, SendChunk send, Thinning thinning = {});

  /// Sends the first of this worker's contributions to every participant; OnChunk sends the others.
  /// With one participant the reduce is done at once.
  void Start();

  /// Takes a chunk of this reduce. Errors: kDataLoss for a chunk that does not fit (harmless:
  /// nothing was taken); a repeated chunk is ignored.
  Status OnChunk(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk,
                 const Bytes& payload);

  bool done() const { return missing_elements_ == 0; }
  /// Chunks that have come from others.
  std::uint64_t chunks() const { return chunks_; }
  /// The participants for whose chunks this one waits: those whose contributions to its shard are
  /// missing, or else the owners of the sums that are.
  std::vector<protocol::WorkerId> Awaited() const;
  /// The sum, of the contribution's type; complete when done(). Shares the memory.
  Bytes result() const;
  /// For the next step, when done(); empty without a codec.
  Bytes residual() const;
  const model::GradientSum& own() const { return own_; }
  const protocol::Reduce& reduce() const { return reduce_; }

 private:
  struct OwnChunk {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::vector<std::optional<Bytes>> contributions;  // by participant, read; own is not filled
    std::size_t present = 0;
    bool summed = false;
  };
  std::size_t ranks() const { return reduce_.participants.size(); }
  std::uint64_t ShardBegin(std::size_t rank) const;
  /// Sends the next chunk of the contribution to that rank's shard. False: there is none.
  bool Contribute(std::size_t rank);
  std::uint64_t chunk_elements() const { return kChunkBytes / element_bytes_; }
  bool thin() const { return thinning_.codec != nullptr; }
  /// This worker's floats of a chunk plus the residual of the step before.
  std::vector<float> Compensated(std::uint64_t offset, std::uint64_t count) const;
  /// Returns the payload of `values` and replaces them by their decoded values. The rounding error
  /// goes into the new residual.
  Bytes Thinned(std::uint64_t offset, std::span<float> values);
  void SumThin(OwnChunk& chunk);
  void SendSum(OwnChunk& chunk, const Bytes& payload);
  protocol::ReduceChunk Header(protocol::ReduceChunk::Phase phase, std::uint64_t offset) const;
  Status Scatter(std::size_t from, const protocol::ReduceChunk& chunk, const Bytes& payload);
  Status Gather(std::size_t from, const protocol::ReduceChunk& chunk, const Bytes& payload);
  void Sum(OwnChunk& chunk);

  const protocol::Reduce reduce_;
  const model::GradientSum own_;
  const std::uint64_t element_bytes_;
  const std::uint64_t elements_;
  const SendChunk send_;
  const Thinning thinning_;
  std::size_t rank_ = 0;
  std::shared_ptr<std::byte[]> result_;
  std::shared_ptr<float[]> residual_;  // new; none without a codec
  std::vector<OwnChunk> own_chunks_;
  std::vector<std::uint64_t> contributed_;  // chunks, by rank
  std::vector<bool> gathered_;              // by chunk number over the whole group, others' shards
  std::uint64_t missing_elements_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace swarm::stage
