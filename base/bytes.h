// A piece of memory with many readers, which is freed when the last reader releases it.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace swarm {

/// Immutable, reference-counted bytes, which cross threads, queues and the network without being
/// copied. Copying a Bytes shares the memory. Safe to read from any thread.
class Bytes {
 public:
  Bytes() = default;

  /// Bytes that keep `owner` alive, such as a tensor or a receive buffer.
  static Bytes Wrap(const void* data, std::size_t size, std::shared_ptr<const void> owner) {
    return Bytes(static_cast<const std::byte*>(data), size, std::move(owner));
  }
  static Bytes Copy(const void* data, std::size_t size) {
    std::shared_ptr<std::byte[]> memory(new std::byte[size]);
    if (size > 0) std::memcpy(memory.get(), data, size);
    return Bytes(memory.get(), size, memory);
  }
  static Bytes Copy(std::string_view text) { return Copy(text.data(), text.size()); }
  /// `size` bytes (not initialised) that `fill` writes before any other code sees them.
  static Bytes Make(std::size_t size, const std::function<void(std::byte*)>& fill) {
    std::shared_ptr<std::byte[]> memory(new std::byte[size]);
    fill(memory.get());
    return Bytes(memory.get(), size, memory);
  }

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// A part of these bytes; shares the memory. Requires offset + size <= this->size().
  Bytes Slice(std::size_t offset, std::size_t size) const {
    return Bytes(data_ + offset, size, owner_);
  }

 private:
  Bytes(const std::byte* data, std::size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace swarm
