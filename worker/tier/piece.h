// Requests to a scratch file, cut in pieces, and the way of a piece through a buffer. Knows no
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "worker/tier/tier.h"

namespace swarm::tier {

/// A read or a write of which several pieces are under way. Thread-safe.
class Request {
 public:
  /// `done` is called when so many pieces are done, with the first error.
  Request(std::size_t pieces, Tier::Done done) : pieces_(pieces), done_(std::move(done)) {}
  void Finish(const Status& of_piece);

 private:
  std::mutex mutex_;
  std::size_t pieces_;  ///< that are not done
  Status status_;
  const Tier::Done done_;
};

struct Piece {
  std::shared_ptr<Request> request;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t size = 0;
  std::byte* to = nullptr;          ///< of a read
  const std::byte* from = nullptr;  ///< of a write
};

/// The pieces of a read, or a write, of some bytes from `offset` on. The blocks of the file that a
/// piece touches are kPiece bytes at most, and no two pieces touch the same.
std::vector<Piece> CutRead(std::uint64_t offset, std::span<std::byte> to, Tier::Done done);
std::vector<Piece> CutWrite(std::uint64_t offset, std::span<const std::byte> from, Tier::Done done);

/// Buffers of kPiece bytes.
class Buffers {
 public:
  explicit Buffers(std::size_t count) : memory_(MakeMemory(count * kPiece)) {}
  std::byte* at(std::size_t i) const { return memory_.get() + i * kPiece; }

 private:
  const std::shared_ptr<std::byte[]> memory_;
};

/// A piece on its way. Direct I/O wants whole blocks of the file and aligned memory: a piece that
/// is not so goes through a buffer. A copy costs a tenth of what the disk takes.
class Passage {
 public:
  /// Fills the buffer of a write that goes through it. `buffer` has kPiece bytes and outlives this.
  Passage(Piece piece, std::byte* buffer, std::size_t memory_alignment);

  bool reads() const { return piece_.to != nullptr; }
  // What the next system call has to move: between `memory` and `offset` of the file.
  std::byte* memory() const { return memory_ + moved_; }
  std::uint64_t size() const { return size_ - moved_; }
  std::uint64_t offset() const { return begin_ + moved_; }

  /// Takes the result of that call: how many bytes it has moved, or a negated errno. Returns
  /// whether the piece is done, well or not; then its request knows, and what was read is where the
  /// caller wants it. If not, there is more to move. `file` names the file in errors.
  bool Advance(std::int64_t result, const std::string& file);

 private:
  Piece piece_;
  std::uint64_t begin_, size_;  ///< its blocks
  bool through_buffer_;
  std::byte* memory_;  ///< the buffer, or the caller's
  std::uint64_t moved_ = 0;
};

}  // namespace swarm::tier
