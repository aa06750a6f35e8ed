// Bytes in pieces that can be fetched from several workers at once, each piece verified on its own.
// A tree of two levels: the index lists the digest of every piece, and the digest of the index
// stands for the whole. A worker that knows that one digest can take the index from any worker, and
// every piece from any other.
//
// The state of a stage and the reduced gradient of a group travel so (docs/protocol.md, joining).
// Encoding of an index, little endian: u64 bytes of the whole; then for each piece the two halves
// of its digest, u64 high and u64 low.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"

namespace swarm::checkpoint {

/// Bytes of every piece but the last, which has the rest.
inline constexpr std::uint64_t kPieceBytes = 4u << 20;

struct PieceIndex {
  std::uint64_t bytes = 0;      ///< of the whole
  std::vector<Digest> digests;  ///< one a piece

  std::uint64_t count() const { return digests.size(); }
  /// Where piece `piece` begins in the whole.
  static std::uint64_t Offset(std::uint64_t piece) { return piece * kPieceBytes; }
  /// Bytes of piece `piece`. Requires piece < count().
  std::uint64_t Size(std::uint64_t piece) const;
  /// Whether `content` is piece `piece`. Reads it once. Requires piece < count().
  bool Matches(std::uint64_t piece, std::span<const std::byte> content) const;
};

Bytes EncodePieceIndex(const PieceIndex& index);
/// Total. Errors: kDataLoss (no encoding of an index).
Result<PieceIndex> DecodePieceIndex(std::span<const std::byte> encoded);

/// Calls body(0) to body(count - 1), in any order and from any threads; returns when all are done.
using ForEach =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& body)>;
/// One after the other on the calling thread.
void InOrder(std::size_t count, const std::function<void(std::size_t)>& body);

/// Bytes with their index. Shares the memory of its parts, which must not change. Safe to read from
/// any thread.
class PiecedBytes {
 public:
  /// `parts`, one after the other. Reads everything once, piece by piece in `for_each`, but for
  /// the first pieces, whose digests are `known`.
  explicit PiecedBytes(std::vector<Bytes> parts, const ForEach& for_each = InOrder,
                       std::vector<Digest> known = {});

  /// Encoded.
  const Bytes& index() const { return index_; }
  /// Digest of the index: stands for the whole.
  const Digest& digest() const { return digest_; }
  std::uint64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  std::uint64_t count() const { return (bytes() + kPieceBytes - 1) / kPieceBytes; }
  /// Shares the memory, or, where the piece lies in several parts, a copy. Requires piece <
  /// count().
  Bytes Piece(std::uint64_t piece) const;

 private:
  std::vector<Bytes> SlicesOf(std::uint64_t piece) const;

  std::vector<Bytes> parts_;
  std::vector<std::uint64_t> ends_;  ///< of the parts, in the whole
  Bytes index_;
  Digest digest_;
};

/// Cuts the state of a stage, as Snapshot gives it (names, types, shapes and elements), as one
/// safetensors file. The same tensors give the same digest; it does not depend on `for_each`.
/// Errors: those of EncodeSafetensors.
Result<PiecedBytes> CutState(std::span<const NamedTensor> tensors,
                             const ForEach& for_each = InOrder);
/// The digest of CutState, also of tensors that are elsewhere: those are read piece by piece, but
/// for the pieces within one of them whose digest that knows, and nothing of them is kept. Errors:
/// the same, and those of Elsewhere::Read.
Result<Digest> DigestState(std::span<const NamedTensor> tensors);
/// By tensor of such a state, where in it the first piece begins that lies within it. Errors: those
/// of EncodeSafetensors.
Result<std::map<std::string, std::uint64_t>> FindFirstPieces(std::span<const NamedTensor> tensors);
/// Finds the tensors in the pieces of CutState put together; they share its memory. Errors:
/// kDataLoss.
Result<TensorLookup> ReadState(const Bytes& whole);

}  // namespace swarm::checkpoint
