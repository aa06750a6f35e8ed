// Memory for received messages, used again and again: page faults of a fresh buffer of 32 MiB cost
// as much time as copying into it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace swarm::net {

/// Thread-safe. Held by shared_ptr: buffers come back to it from any thread, or are freed when it
/// is gone.
class ReceiveBuffers : public std::enable_shared_from_this<ReceiveBuffers> {
 public:
  /// `unfinished_bytes_max`: of all buffers that are being filled, and of rooms; `idle_bytes_max`:
  /// kept for reuse.
  ReceiveBuffers(std::size_t unfinished_bytes_max, std::size_t idle_bytes_max);

  /// A buffer that is being filled.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    std::byte* data() const { return memory_.get(); }
    /// Ends the filling. Returns the bytes; their memory comes back when the last reader releases
    /// it.
    Bytes Finish() &&;

   private:
    friend class ReceiveBuffers;
    std::shared_ptr<ReceiveBuffers> home_;
    std::unique_ptr<std::byte[]> memory_;
    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
  };

  /// Counts as a buffer that is being filled, for memory that is held elsewhere; until it is gone.
  using Room = std::shared_ptr<const void>;

  /// Errors: kResourceExhausted when too many bytes are being filled already. One buffer is always
  /// allowed.
  Result<Buffer> Take(std::size_t size);
  /// Errors: the same.
  Result<Room> TakeRoom(std::size_t size);

 private:
  struct Idle {
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
  };
  void GiveBack(std::unique_ptr<std::byte[]> memory, std::size_t capacity);
  /// Under the lock.
  Status BeginFilling(std::size_t size);
  void EndFilling(std::size_t size);
  /// The smallest idle buffer that holds `size` and does not waste more than that; may be empty.
  Idle TakeIdle(std::size_t size);

  const std::size_t unfinished_bytes_max_;
  const std::size_t idle_bytes_max_;
  std::mutex mutex_;
  std::size_t unfinished_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::vector<Idle> idle_;  // oldest first
};

}  // namespace swarm::net
