// One participant's part in one reduce: the sum of all participants' accumulators, by a chunked
// reduce-scatter and all-gather over a grid (worker/protocol/grid/reduce_grid.h). In every row the
// owner in a column adds what the row contributes to the column, in the order of the seats.
// The owner of a piece adds these partial sums, row by row, and the sum goes to the owners in the
// column and from them to their rows. In one row there are no partial sums: every participant owns
// a shard. Where rows are of several regions, a head in each region adds its partial sums, and the
// owner adds the sums of the regions; the sum goes back over the heads. So every element is summed
// in one order, and all results are equal bit for bit. The contribution says whether elements are
// float32 or int64; no other line depends on it.
//
// Bytes sent by a worker: 2 (R-1)/R of the group, as a ring has, in two hops, four or six instead
// of 2; where rows are unequal, the owners of the longer ones send up to a column more.
// Chunks flow independently: the gather of one begins while others are still scattered.
//
// A participant that has not begun has to keep what comes. So it gets kEarlyBytes from all others
// together, and the rest once it has sent a chunk itself: that shows that it has begun.
//
// With a codec, floats are sent as its payloads, and the owner of a piece takes the sum as the
// others decode it. The rounding error, of a contribution, a partial sum or a sum, is the worker's
// residual, which it adds to its contribution to the next step. It rounds every element once: its
// contribution to it, or the one partial sum, regional sum or sum of it that it sends. A worker's
// residual goes when the worker goes: it is only as large as one step's rounding.
//
// Where parts have holders (docs/protocol.md, rule 31) there are no rows: the first holder of a
// part adds the contributions, and its second one alone gets the sum.
//
// Not thread-safe; has no clock and no socket. Source: butterfly all-reduce as in Moshpit SGD and
// hivemind; docs/protocol.md, rule 11.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer_pool.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/stage.h"
#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/reduce/reduce_codec.h"

namespace swarm::stage {

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

  /// `own` is this worker's contribution. `part_sizes`: the elements of the parts, if these have
  /// holders. Requires: `self` is a participant, and so are all holders; floats where there is a
  /// codec.
  GroupReduce(const protocol::Reduce& reduce, const protocol::WorkerId& self,
              model::GradientSum own, BufferPool& buffers, SendChunk send, Thinning thinning = {},
              const std::vector<std::uint64_t>& part_sizes = {});

  /// Sends the first of this worker's contributions to its row; OnChunk sends the others.
  /// With one participant the reduce is done at once.
  void Start();

  /// Takes a chunk of this reduce. Errors: kDataLoss for a chunk that does not fit (harmless:
  /// nothing was taken); a repeated chunk is ignored.
  Status OnChunk(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk,
                 const Bytes& payload);

  bool done() const { return missing_elements_ == 0; }
  /// Chunks that have come from others.
  std::uint64_t chunks() const { return chunks_; }
  /// The participants for whose chunks this one waits: those whose contributions to its column are
  /// missing; or else those whose partial sums that it adds are; or else those whose sums of their
  /// regions are; or else those that would send it the sums that are.
  std::vector<protocol::WorkerId> Awaited() const;
  /// The sum, of the contribution's type; complete when done(), where parts have holders only those
  /// of this worker. Shares the memory.
  Bytes result() const;
  /// For the next step, when done(); empty without a codec.
  Bytes residual() const;
  const model::GradientSum& own() const { return own_; }
  const protocol::Reduce& reduce() const { return reduce_; }

 private:
  /// What is added, in this order; decoded.
  struct Inputs {
    std::vector<std::optional<Bytes>> come;  // none: missing
    std::size_t missing = 0;
    bool added = false;  // and released
  };
  /// A chunk of this worker's column.
  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::size_t piece = 0;
    Inputs row;      // contributions, by place in the row; the own one is not filled
    Inputs column;   // partial sums, by row of the region, if this worker is its head
    Inputs regions;  // their sums, by region, if there are several and this worker is the owner
  };
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
  };
  /// A partial sum, or the sum of a region.
  struct Partial {
    Range range;
    Bytes elements;
  };
  struct Peer {
    bool heard = false;               // it has begun
    std::uint64_t sent = 0;           // bytes of elements
    std::uint64_t early = 0;          // that it gets unheard, or a chunk
    std::deque<Range> contributions;  // of this worker, that it has yet to get
    std::deque<Partial> partials;     // that it adds, and has yet to get
  };

  bool divided() const { return !reduce_.holders.empty(); }
  std::uint64_t PieceBegin(std::size_t piece) const { return begins_[piece]; }
  std::size_t PieceAt(std::uint64_t element) const;
  /// Who has the sum of the piece first.
  protocol::ReduceGrid::Seat OwnerOf(std::size_t piece) const {
    return divided() ? owners_[piece] : grid_.OwnerOf(piece);
  }
  protocol::ReduceGrid::Seat SeatOf(const protocol::WorkerId& id) const;
  protocol::ReduceGrid::Seat HeadOf(std::size_t piece) const {
    return grid_.HeadOf(region_, piece);
  }
  /// Finds the pieces that this worker adds up, and those that others do.
  void CutIntoColumns();
  void CutIntoParts();
  /// Calls take(range) for the chunks from one piece to another one.
  void ForEachChunk(std::size_t first_piece, std::size_t end_piece,
                    const std::function<void(Range)>& take) const;
  void AddOwnChunk(Range range);
  /// The chunk of some piece that begins there; empty: none does.
  Range ChunkAt(std::uint64_t offset) const;
  /// Of this worker's column. Null: it has none there.
  Chunk* FindOwn(std::uint64_t offset);
  bool MaySend(const Peer& peer, std::uint64_t bytes) const;
  /// Sends the next chunk of the contribution to that peer's column. False: there is none, or it
  /// must wait until the peer has begun.
  bool Contribute(protocol::ReduceGrid::Seat to);
  /// Sends the partial sums, or sums of the region, that wait for who adds them.
  void SendPartials(protocol::ReduceGrid::Seat to);
  void Send(protocol::ReduceGrid::Seat to, protocol::ReduceChunk::Phase phase, Range range,
            Bytes payload);
  std::uint64_t chunk_elements() const { return kChunkBytes / element_bytes_; }
  bool thin() const { return thinning_.codec != nullptr; }
  /// What the row contributes is this worker's contribution, as it is.
  bool SendsOwn() const { return grid_.RowSize(row_) == 1 && !thin(); }
  /// This worker's floats of a chunk plus the residual of the step before.
  std::vector<float> Compensated(Range range) const;
  /// Returns the payload of `values` and replaces them by their decoded values. The rounding error
  /// goes into the new residual.
  Bytes Thinned(std::uint64_t offset, std::span<float> values);
  Status CheckSize(const Bytes& payload, std::uint64_t count) const;
  /// The elements of a payload. Errors: kDataLoss (it does not hold `count`).
  Result<Bytes> Elements(const Bytes& payload, std::uint64_t count) const;
  /// Who sends this worker the sum of the piece. Nothing: it makes the sum itself.
  std::optional<protocol::ReduceGrid::Seat> SumSender(std::size_t piece) const;
  Status Scatter(protocol::ReduceGrid::Seat from, const protocol::ReduceChunk& chunk,
                 const Bytes& payload);
  Status Gather(protocol::ReduceGrid::Seat from, const protocol::ReduceChunk& chunk,
                const Bytes& payload);
  void AddRow(Chunk& chunk);
  /// Gives the partial sum to the head of the region.
  void PassOn(Chunk& chunk, const Bytes& partial);
  void AddColumn(Chunk& chunk);
  void AddRegions(Chunk& chunk);
  /// The inputs that a chunk of that sender belongs to, and its place there. Null: to none.
  std::pair<Inputs*, std::size_t> InputsFor(Chunk& chunk, protocol::ReduceGrid::Seat from);
  /// The sum of an own piece's chunk is in the result.
  void SendSum(const Chunk& chunk);
  /// A sum that this worker has goes on from it: as the head of the region to the adders of its
  /// rows, and from there to the rows.
  void SendToRegion(Range range, std::size_t piece, const Bytes& payload);
  void SendToRow(Range range, const Bytes& payload);
  void AddUp(std::byte* to, std::span<const std::byte* const> inputs, std::uint64_t count) const;
  std::byte* ResultAt(std::uint64_t offset) const {
    return result_.get() + offset * element_bytes_;
  }

  const protocol::Reduce reduce_;
  const model::GradientSum own_;
  const std::uint64_t element_bytes_;
  const std::uint64_t elements_;
  const SendChunk send_;
  const Thinning thinning_;
  const protocol::ReduceGrid grid_;
  protocol::ReduceGrid::Seat seat_ = 0;
  std::size_t row_ = 0, column_ = 0, region_ = 0;
  std::shared_ptr<std::byte[]> result_;
  std::shared_ptr<std::byte[]>
      partials_;  // of this column; none where there is one row, or a row of one
  std::shared_ptr<float[]> residual_;                               // new; none without a codec
  std::vector<std::uint64_t> begins_;                               // of the pieces; and the end
  std::vector<protocol::ReduceGrid::Seat> owners_;                  // of the pieces, if divided
  std::vector<std::optional<protocol::ReduceGrid::Seat>> seconds_;  // that get the sum, if divided
  std::vector<Chunk> own_chunks_;                                   // by offset
  std::vector<Peer> peers_;                                         // by seat
  std::set<std::uint64_t> gathered_;  // offsets of chunks of others' pieces
  std::uint64_t missing_elements_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace swarm::stage
