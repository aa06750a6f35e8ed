#include "base/buffer_pool.h"

#include <map>
#include <mutex>
#include <utility>

namespace swarm {

struct BufferPool::Shelf {
  std::mutex mutex;
  std::multimap<std::size_t, std::unique_ptr<std::byte[]>> buffers;
};

std::shared_ptr<BufferPool::Shelf> BufferPool::MakeShelf() { return std::make_shared<Shelf>(); }

std::shared_ptr<std::byte[]> BufferPool::Take(std::size_t size) {
  std::unique_ptr<std::byte[]> memory;
  {
    std::lock_guard lock(shelf_->mutex);
    if (const auto it = shelf_->buffers.find(size); it != shelf_->buffers.end()) {
      memory = std::move(it->second);
      shelf_->buffers.erase(it);
    }
  }
  if (!memory) memory.reset(new std::byte[size]);
  return std::shared_ptr<std::byte[]>(memory.release(),
                                      [shelf = shelf_, size](std::byte* returned) {
                                        std::unique_ptr<std::byte[]> buffer(returned);
                                        std::lock_guard lock(shelf->mutex);
                                        if (shelf->buffers.count(size) < 2)
                                          shelf->buffers.emplace(size, std::move(buffer));
                                      });
}

}  // namespace swarm
