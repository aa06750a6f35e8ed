// A place for bytes that are not needed now: slower than the memory in which they are used, and
// larger. Reads and writes are submitted and complete later, so that several are on their way while
// their owner computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace swarm::tier {

/// Offsets of writes are multiples of it.
inline constexpr std::uint64_t kBlock = 4096;

/// Memory with anything in it, for bytes that a tier moves: what begins at a multiple of a block in
/// it needs no copy on its way from and to a file. In large pages where the kernel gives them,
/// since it looks up the pages of each call one by one; and kept for later calls: together with
/// what is in use never more than was in use at once.
std::shared_ptr<std::byte[]> MakeMemory(std::size_t bytes);
/// What is kept of it goes back to the system.
void ReleaseMemory();

/// To whole blocks.
constexpr std::uint64_t RoundUpToBlocks(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

/// Thread-safe. Requests in flight at once may not touch the same bytes, unless all of them read.
class Tier {
 public:
  /// Called once, on any thread; must be short.
  using Done = std::function<void(Status)>;

  virtual ~Tier() = default;

  /// Makes room for `bytes` from offset 0 on. What is there stays. Errors: kResourceExhausted.
  virtual Status Grow(std::uint64_t bytes) = 0;
  /// Fills `to`, which must live until `done` is called. Errors: kDataLoss (the tier fails).
  virtual void SubmitRead(std::uint64_t offset, std::span<std::byte> to, Done done) = 0;
  /// Writes `from`, which must live as long; what lies behind it in its last block becomes
  /// anything. Requires an offset that kBlock divides, and the room. Errors: the same.
  virtual void SubmitWrite(std::uint64_t offset, std::span<const std::byte> from, Done done) = 0;
  /// The bytes as memory, which keeps `owner`, and that the tier. Of a file they are mapped: the
  /// kernel reads them when they are used, and drops them when it needs the memory. They may not be
  /// written while it lives. Requires an offset that kBlock divides. Errors:
  /// kResourceExhausted; a disk that fails later ends the process.
  virtual Result<Bytes> Map(std::uint64_t offset, std::uint64_t size,
                            std::shared_ptr<const void> owner) = 0;
  /// For the log: what it is.
  virtual std::string name() const = 0;

  /// The same, for callers that wait.
  Status Read(std::uint64_t offset, std::span<std::byte> to);
  Status Write(std::uint64_t offset, std::span<const std::byte> from);
};

/// Memory, which threads copy from and to: of a machine that has room for all of it, beside a
/// device that does not.
std::unique_ptr<Tier> MakeMemoryTier();

/// What reads and writes a file: several pieces of requests at once, of kPiece bytes. Threads are
/// the default: docs/numbers.md compares the two.
enum class FileMover {
  kThreads,  ///< kThreads of them, a piece each
  kRing,     ///< io_uring, kRingPieces at once; threads where the kernel or a container refuses it
};
inline constexpr std::size_t kPiece = std::size_t{1} << 20;
inline constexpr std::size_t kThreads = 4;
inline constexpr std::size_t kRingPieces = 8;

/// A file without a name in `folder`, which goes with the tier or the process; a tier that goes
/// finishes first what was submitted. It is read and written past the page cache; a file system
/// that does not offer that (tmpfs does not) goes through the page cache, and the log says so. Its
/// name says what moves its bytes, and why, if that is not what was wanted. Errors: kUnavailable
/// (no file can be made there).
Result<std::unique_ptr<Tier>> OpenFileTier(const std::string& folder, FileMover wanted);
/// The same; SWARM_SCRATCH_IO in the environment says what is wanted: threads (or nothing), or
/// io_uring. It belongs to the machine, not to a job. Errors: also kInvalidArgument (another word).
Result<std::unique_ptr<Tier>> OpenFileTier(const std::string& folder);

}  // namespace swarm::tier
