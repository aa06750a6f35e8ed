// Memory that the workers of a pod share: a payload from one to another is copied in it instead of
// passing through TLS and TCP. It is anonymous: whoever starts the workers makes it, they inherit
// its descriptor, and it is gone with the last of them.
//
// Each worker writes to a part of its own, a ring, and reads all. It *lends* a payload: writes it
// to a block, and sends a short description on the usual way. The receiver copies the block, and
// marks it as taken. A block that was not taken in time is used again; if its receiver reads it
// after all, the digest in the description tells.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"

namespace swarm::net {

/// Thread-safe.
class PodMemory {
 public:
  static constexpr std::size_t kPartBytes = 64u << 20;
  /// A receiver takes a block when its message comes. What takes longer is probably lost.
  static constexpr Duration kLoanMax = std::chrono::seconds(60);

  /// Makes the memory of so many workers. Programs that this process starts inherit fd(). Errors:
  /// kUnavailable (the kernel gives none).
  static Result<std::shared_ptr<PodMemory>> Create(std::size_t workers,
                                                   std::size_t part_bytes = kPartBytes);
  /// That of an inherited descriptor; `worker` counts from 0, and is the part to write to. Errors:
  /// kInvalidArgument (no such memory, or part).
  static Result<std::shared_ptr<PodMemory>> Open(int fd, std::size_t worker);
  ~PodMemory();
  PodMemory(const PodMemory&) = delete;
  PodMemory& operator=(const PodMemory&) = delete;

  int fd() const { return fd_; }
  std::size_t workers() const;

  /// Copies the payload to the own part. Returns its description; none: there is no room.
  std::optional<Bytes> Lend(const Bytes& payload, Timepoint now);
  /// Takes back what was lent and is not going to be sent.
  void TakeBack(const Bytes& description);

  /// Whether the bytes are a description of something lent in this memory. No others are: it
  /// contains 128 random bits.
  bool IsLoan(const Bytes& bytes) const;
  /// A copy of what is lent. Errors: kDataLoss (the block was used again, or never existed).
  Result<Bytes> Take(const Bytes& description);

 private:
  struct Header;       // of the memory
  struct Block;        // before each payload
  struct Description;  // as it is sent
  struct Lent {
    std::size_t begin;  // in the part
    std::size_t end;
    Timepoint since;
  };

  PodMemory(int fd, std::byte* data, std::size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  static Result<std::shared_ptr<PodMemory>> Map(int fd, std::size_t bytes);
  const Header& header() const { return *reinterpret_cast<const Header*>(data_); }
  std::byte* PartBegin(std::size_t worker) const;
  /// Where in the part so many bytes are free from now on.
  std::optional<std::size_t> Reserve(std::size_t bytes, Timepoint now);
  static std::atomic_ref<std::uint32_t> TakenFlag(std::byte* block);

  const int fd_;  // owned
  std::byte* const data_;
  const std::size_t bytes_;
  std::size_t worker_ = 0;
  std::mutex mutex_;
  std::deque<Lent> lent_;  // oldest first: the used part of the ring
};

}  // namespace swarm::net
