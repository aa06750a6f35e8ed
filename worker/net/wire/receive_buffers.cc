#include "worker/net/wire/receive_buffers.h"

#include <string>
#include <utility>

namespace swarm::net {
namespace {

/// Below this size the allocator has memory at hand that needs no page faults.
constexpr std::size_t kReuseFrom = 128u << 10;

/// Rounds up, so that nearly equal sizes share buffers.
std::size_t CapacityFor(std::size_t size) {
  if (size < kReuseFrom) return size;
  constexpr std::size_t kStep = 64u << 10;
  return (size + kStep - 1) / kStep * kStep;
}

}  // namespace

ReceiveBuffers::ReceiveBuffers(std::size_t unfinished_bytes_max, std::size_t idle_bytes_max)
    : unfinished_bytes_max_(unfinished_bytes_max), idle_bytes_max_(idle_bytes_max) {}

ReceiveBuffers::Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

ReceiveBuffers::Buffer& ReceiveBuffers::Buffer::operator=(Buffer&& other) noexcept {
  home_.swap(other.home_);
  memory_.swap(other.memory_);
  std::swap(capacity_, other.capacity_);
  std::swap(size_, other.size_);
  return *this;
}

ReceiveBuffers::Buffer::~Buffer() {
  if (!home_) return;
  home_->EndFilling(size_);
  home_->GiveBack(std::move(memory_), capacity_);
}

Bytes ReceiveBuffers::Buffer::Finish() && {
  home_->EndFilling(size_);
  const std::byte* data = memory_.get();
  // The memory returns home from the thread that reads it last, and is freed if home no longer
  // exists.
  const std::weak_ptr<ReceiveBuffers> home = home_;
  std::shared_ptr<const void> owner(memory_.release(),
                                    [home, capacity = capacity_](std::byte* memory) {
                                      std::unique_ptr<std::byte[]> freed(memory);
                                      if (const auto alive = home.lock())
                                        alive->GiveBack(std::move(freed), capacity);
                                    });
  home_.reset();
  return Bytes::Wrap(data, size_, std::move(owner));
}

Status ReceiveBuffers::BeginFilling(std::size_t size) {
  if (unfinished_bytes_ > 0 && unfinished_bytes_ + size > unfinished_bytes_max_) {
    return ResourceExhausted("no room to receive " + std::to_string(size) + " bytes: " +
                             std::to_string(unfinished_bytes_) + " are arriving already");
  }
  unfinished_bytes_ += size;
  return Status();
}

Result<ReceiveBuffers::Room> ReceiveBuffers::TakeRoom(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(BeginFilling(size));
  }
  return Room(this, [home = shared_from_this(), size](const void*) { home->EndFilling(size); });
}

Result<ReceiveBuffers::Buffer> ReceiveBuffers::Take(std::size_t size) {
  Idle found;
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(BeginFilling(size));
    found = TakeIdle(size);
  }
  if (!found.memory) {
    found.capacity = CapacityFor(size);
    found.memory.reset(new std::byte[found.capacity]);
  }
  Buffer buffer;
  buffer.home_ = shared_from_this();
  buffer.memory_ = std::move(found.memory);
  buffer.capacity_ = found.capacity;
  buffer.size_ = size;
  return buffer;
}

ReceiveBuffers::Idle ReceiveBuffers::TakeIdle(std::size_t size) {
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const bool fits = it->capacity >= size && it->capacity / 2 <= size;
    if (fits && (best == idle_.end() || it->capacity < best->capacity)) best = it;
  }
  if (best == idle_.end()) return {};
  Idle taken = std::move(*best);
  idle_.erase(best);
  idle_bytes_ -= taken.capacity;
  return taken;
}

void ReceiveBuffers::EndFilling(std::size_t size) {
  const std::lock_guard lock(mutex_);
  unfinished_bytes_ -= size;
}

void ReceiveBuffers::GiveBack(std::unique_ptr<std::byte[]> memory, std::size_t capacity) {
  if (capacity < kReuseFrom || capacity > idle_bytes_max_) return;
  std::vector<Idle> freed;  // outside of the lock
  const std::lock_guard lock(mutex_);
  while (idle_bytes_ + capacity > idle_bytes_max_) {
    idle_bytes_ -= idle_.front().capacity;
    freed.push_back(std::move(idle_.front()));
    idle_.erase(idle_.begin());
  }
  idle_bytes_ += capacity;
  idle_.push_back({std::move(memory), capacity});
}

}  // namespace swarm::net
