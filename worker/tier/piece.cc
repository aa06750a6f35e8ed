#include "worker/tier/piece.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "worker/tier/scratch_file.h"

namespace swarm::tier {
namespace {

/// Calls place(piece, at) for the pieces of a request; `at` counts from its beginning.
template <typename Place>
std::vector<Piece> Cut(std::uint64_t offset, std::size_t size, Tier::Done done, Place place) {
  const std::uint64_t lead = offset % kBlock;
  const auto request =
      std::make_shared<Request>((lead + size + kPiece - 1) / kPiece, std::move(done));
  std::vector<Piece> pieces;
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t end = std::min(size, (lead + at) / kPiece * kPiece + kPiece - lead);
    pieces.push_back({.request = request, .offset = offset + at, .size = end - at});
    place(pieces.back(), at);
    at = end;
  }
  return pieces;
}

/// Whether a system call may move the piece from and to the caller's memory.
bool IsAligned(const Piece& piece, std::size_t memory_alignment) {
  const void* const memory = piece.to != nullptr ? piece.to : piece.from;
  return piece.offset % kBlock == 0 && piece.size % kBlock == 0 &&
         reinterpret_cast<std::uintptr_t>(memory) % memory_alignment == 0;
}

}  // namespace

void Request::Finish(const Status& of_piece) {
  {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = of_piece;
    if (--pieces_ > 0) return;
  }
  done_(status_);
}

std::vector<Piece> CutRead(std::uint64_t offset, std::span<std::byte> to, Tier::Done done) {
  return Cut(offset, to.size(), std::move(done),
             [&](Piece& piece, std::uint64_t at) { piece.to = to.data() + at; });
}

std::vector<Piece> CutWrite(std::uint64_t offset, std::span<const std::byte> from,
                            Tier::Done done) {
  return Cut(offset, from.size(), std::move(done),
             [&](Piece& piece, std::uint64_t at) { piece.from = from.data() + at; });
}

Passage::Passage(Piece piece, std::byte* buffer, std::size_t memory_alignment)
    : piece_(std::move(piece)),
      begin_(piece_.offset / kBlock * kBlock),
      size_(RoundUpToBlocks(piece_.offset + piece_.size) - begin_),
      through_buffer_(!IsAligned(piece_, memory_alignment)),
      memory_(buffer) {
  if (!through_buffer_) {
    memory_ = reads() ? piece_.to : const_cast<std::byte*>(piece_.from);  // NOLINT: only read
  } else if (!reads()) {
    std::memcpy(memory_, piece_.from, piece_.size);
    std::memset(memory_ + piece_.size, 0, size_ - piece_.size);
  }
}

bool Passage::Advance(std::int64_t result, const std::string& file) {
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result <= 0) {
    const std::string reason =
        result < 0 ? std::strerror(static_cast<int>(-result)) : "the file ends there";
    piece_.request->Finish(DataLoss(file +
                                    (reads() ? " cannot be read at " : " cannot be written at ") +
                                    std::to_string(offset()) + ": " + reason + kAnotherFolder));
    return true;
  }
  moved_ += static_cast<std::uint64_t>(result);
  if (moved_ < size_) return false;
  if (reads() && through_buffer_) {
    std::memcpy(piece_.to, memory_ + (piece_.offset - begin_), piece_.size);
  }
  piece_.request->Finish(Status());
  return true;
}

}  // namespace swarm::tier
