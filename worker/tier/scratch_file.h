// Files for bytes that nobody needs once the process has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace swarm::tier {

/// The end of an error: what to do about a disk that fails.
inline constexpr const char* kAnotherFolder = "; name another folder in pipeline.memory.scratch";

/// A file without a name, which goes with its owner or the process. Thread-safe.
class ScratchFile {
 public:
  /// Owns `descriptor`.
  ScratchFile(int descriptor, std::string folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// For errors and the log: what it is, and where.
  const std::string& name() const { return name_; }
  /// Of memory that is read and written past the page cache.
  std::size_t memory_alignment() const { return memory_alignment_; }
  /// Takes room on the disk for so many bytes in all; new ones are zeros. Errors:
  /// kResourceExhausted.
  Status Grow(std::uint64_t bytes) const;

 private:
  const int descriptor_;
  const std::string name_;
  const std::size_t memory_alignment_;
};

/// An empty one in `folder`, opened with `flags` of open(2) beside those it needs. Errors:
/// kUnavailable (no file can be made there so).
Result<std::unique_ptr<const ScratchFile>> MakeScratchFile(const std::string& folder,
                                                           int flags = 0);

/// Zeros to read and write, of a scratch file in `folder`, or if that is empty, of memory. Null for
/// no bytes. Errors: kUnavailable (no file), kResourceExhausted (no room).
Result<std::shared_ptr<std::byte>> MapScratchFile(const std::string& folder, std::uint64_t bytes);

}  // namespace swarm::tier
