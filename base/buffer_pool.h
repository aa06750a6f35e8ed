// Large buffers that are used again: fresh pages cost as much as what is done with them.
#pragma once

#include <cstddef>
#include <memory>

namespace swarm {

/// Thread-safe; buffers may outlive the pool.
class BufferPool {
 public:
  /// `size` bytes, aligned to 16, not initialised. They return to the pool when the last owner
  /// releases them; the pool keeps two of each size asked for.
  std::shared_ptr<std::byte[]> Take(std::size_t size);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_ = MakeShelf();
  static std::shared_ptr<Shelf> MakeShelf();
};

}  // namespace swarm
