// Memory that ends the process when it is touched out of turn.
#pragma once

#include <cstddef>

namespace swarm::device {

/// Pages with two addresses. By the one, `own`, they can be touched always; by the other, `view`,
/// only while they are open. Not thread-safe.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t size);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* view() const { return view_; }
  std::byte* own() const { return own_; }

  /// Each Open has its Close. While nobody has opened it to write, a write ends the process, too.
  void Open(bool to_write);
  void Close(bool to_write);

 private:
  void Protect() const;

  const std::size_t size_;
  std::byte* own_ = nullptr;
  std::byte* view_ = nullptr;
  std::size_t readers_ = 0, writers_ = 0;
};

}  // namespace swarm::device
