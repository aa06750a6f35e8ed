// Bounds what several observers hold of the statuses that trainers send: an operator observes the
// trainers of many users, and none of them may exhaust its memory.
#pragma once

#include <cstddef>
#include <mutex>

#include "worker/protocol/messages/observers.h"

namespace swarm::trainer {

/// The memory of `status`, without that of the allocator.
std::size_t BytesOf(const protocol::JobStatus& status);

/// Thread-safe. A status of up to kFreeBytes (some hundred workers) always finds room; the others
/// share `bytes_max`. So a few trainers with huge statuses do not keep those of usual jobs out.
class StatusMemory {
 public:
  static constexpr std::size_t kFreeBytes = 64u << 10;

  explicit StatusMemory(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Whether there is room for a status of so many bytes; then Release gives it back.
  bool Take(std::size_t bytes);
  void Release(std::size_t bytes);

 private:
  const std::size_t bytes_max_;
  std::mutex mutex_;
  std::size_t bytes_ = 0;  // guarded
};

}  // namespace swarm::trainer
