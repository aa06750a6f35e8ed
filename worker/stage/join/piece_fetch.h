// Fetches bytes of which only their digest is known (checkpoint::PiecedBytes) from several workers
// that have them: first the index, from any of them, then the pieces, from all of them. Every piece
// is compared with its digest; nothing else is taken.
//
// Not thread-safe; has no thread, clock or socket. Hashes and copies a piece when it comes: a
// millisecond, or three where the memory is fresh.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// Sends to a donor. What cannot be sent need not be reported here: it is asked of another in time.
using SendFetch = std::function<void(const protocol::WorkerId& to, const protocol::Fetch& fetch)>;

class PieceFetch {
 public:
  /// `what`: of kind kState or kGradient, and which; `piece` does not matter. `digest` is that of
  /// its index; `bytes` is what it must have, where that is known.
  PieceFetch(const protocol::Fetch& what, const Digest& digest, std::optional<std::uint64_t> bytes,
             std::vector<protocol::WorkerId> donors, SendFetch send);

  /// To be called at once, which sends the first requests, and then a few times a second.
  void OnTick(Timepoint now);
  /// False: it is not of this fetch.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

  bool done() const { return index_.has_value() && fetcher_.done(); }
  /// Not ok: it will not be done. kUnavailable: no donor has it, or none sends it intact;
  /// kInvalidArgument: it is not of `bytes` bytes.
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
  /// Its piece 0 is the index, its piece i + 1 our piece i.
  protocol::Fetcher fetcher_;
  std::optional<checkpoint::PieceIndex> index_;
  std::shared_ptr<std::byte[]> memory_;
  Status misfit_;
};

}  // namespace swarm::stage
