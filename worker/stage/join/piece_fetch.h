// Fetches bytes of which only the digest is known (checkpoint::PiecedBytes) from several workers
// that have them: first the index, from any of them, then the pieces, from all of them. It takes a
// piece only if the piece matches its digest.
//
// Not thread-safe; has no thread, clock or socket. Hashes and copies a piece when it comes: a
// millisecond, or three where the memory is fresh.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/checkpoint/pieces.h"
#include "worker/protocol/fetcher.h"
#include "worker/protocol/messages/data.h"

namespace swarm::stage {

/// Sends a request to a donor. It need not report a failure: another donor is asked in time.
using SendFetch = std::function<void(const protocol::WorkerId& to, const protocol::Fetch& fetch)>;

/// For a piece. Longer than it takes to notice a dead or stopped worker in other ways: this is the
/// last resort, and a piece may take its time on a slow link.
inline constexpr Duration kDonorPatience = std::chrono::seconds(10);

/// Memory for so many bytes that are fetched. Errors: kResourceExhausted.
using MakeMemory = std::function<Result<std::shared_ptr<std::byte>>(std::uint64_t bytes)>;
/// Memory of the process.
Result<std::shared_ptr<std::byte>> MakeHeapMemory(std::uint64_t bytes);

class PieceFetch {
 public:
  /// `what` names the state or gradient, of kind kState or kGradient; its `piece` is ignored.
  /// `digest` is that of the index; `bytes` is the expected size, where that is known. `far`: the
  /// donors that are asked only for what the others do not give.
  PieceFetch(const protocol::Fetch& what, const Digest& digest, std::optional<std::uint64_t> bytes,
             std::vector<protocol::WorkerId> donors, SendFetch send,
             MakeMemory make_memory = MakeHeapMemory, std::set<protocol::WorkerId> far = {});

  /// To be called at once, which sends the first requests, and then a few times a second.
  void OnTick(Timepoint now);
  /// False: `fetched` does not belong to this fetch.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

  bool done() const { return index_.has_value() && fetcher_.done(); }
  /// Not ok: the fetch has failed. kUnavailable: no donor has the content, or none sends it intact;
  /// kInvalidArgument: its size is not `bytes`; errors of MakeMemory.
  Status status() const;
  /// Requires done().
  Bytes whole() const { return Bytes::Wrap(memory_.get(), index_->bytes, memory_); }

 private:
  bool IsMine(const protocol::Fetched& fetched) const;
  bool TakeIndex(const Bytes& payload);
  bool TakePiece(std::uint64_t piece, const Bytes& payload);
  std::string Text() const;

  const protocol::Fetch what_;
  const Digest digest_;
  const std::optional<std::uint64_t> bytes_;
  const SendFetch send_;
  const MakeMemory make_memory_;
  /// Piece 0 of the fetcher is the index; piece i + 1 is piece i of the content.
  protocol::Fetcher fetcher_;
  std::optional<checkpoint::PieceIndex> index_;
  std::shared_ptr<std::byte> memory_;
  Status misfit_;
};

}  // namespace swarm::stage
