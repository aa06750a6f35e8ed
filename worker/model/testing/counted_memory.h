// Counts the bytes that tensors occupy.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace swarm::model::testing {

/// Serves the tensors of this process as long as it lives. Create stages first: the first one
/// chooses an allocator, too. Counts the tensors that were made since. For one thread.
class CountedMemory final : public c10::Allocator {
 public:
  CountedMemory() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountedMemory() override { c10::SetCPUAllocator(before_, kPriority); }

  c10::DataPtr allocate(std::size_t size) override {
    void* memory = std::aligned_alloc(kAlignment, (size + 2 * kAlignment - 1) & -kAlignment);
    if (memory == nullptr) throw std::bad_alloc();
    *static_cast<std::size_t*>(memory) = size;
    used_ += size;
    peak_ = std::max(peak_, used_);
    void* data = static_cast<std::byte*>(memory) + kAlignment;
    // The two are one, since attention in bfloat16 also asks for plain memory, on some processors.
    return {data, data, &Free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }

  static std::size_t used() { return used_; }
  static std::size_t peak() { return peak_; }
  static void ForgetPeak() { peak_ = used_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::uint8_t kPriority = 255;

  static void Free(void* data) {
    void* const memory = static_cast<std::byte*>(data) - kAlignment;
    used_ -= *static_cast<std::size_t*>(memory);
    std::free(memory);
  }

  c10::Allocator* const before_;
  static inline std::size_t used_ = 0, peak_ = 0;
};

}  // namespace swarm::model::testing
