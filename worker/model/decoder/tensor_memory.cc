#include "worker/model/decoder/tensor_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/kept_memory.h"

namespace swarm::model {
namespace {

constexpr std::size_t kAlignment = 64;       ///< of tensors; as libtorch has it
constexpr std::size_t kKeptAlignment = 512;  ///< direct I/O moves most of them as they are

/// Stands before the memory of every tensor.
struct alignas(kAlignment) Header {
  std::size_t size;  ///< of what was allocated, with the header
};

/// Before the memory of a tensor.
std::size_t HeadOf(std::size_t size) {
  return size < KeptMemory::kMin ? kAlignment : kKeptAlignment;
}

KeptMemory& Kept() {
  // Never destroyed: tensors may outlive static objects.
  static auto* const kept =
      new KeptMemory(KeptMemory::Bound::kBesideUsed, KeptMemory::Pages::kSmall);
  return *kept;
}

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* const memory = size == 0 ? nullptr : Take(size);
    return {memory, memory, &Delete, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }

 private:
  static void* Take(std::size_t wanted) {
    const std::size_t size = KeptMemory::RoundUp(wanted), head = HeadOf(size);
    const std::size_t all = (size + head + kAlignment - 1) / kAlignment * kAlignment;
    auto* const begin = static_cast<std::byte*>(
        size < KeptMemory::kMin ? std::aligned_alloc(kAlignment, all) : Kept().Take(all));
    if (begin == nullptr) throw std::bad_alloc();
    return new (begin + head - sizeof(Header)) Header{all} + 1;
  }

  static void Delete(void* memory) {
    if (memory == nullptr) return;
    const std::size_t all = (static_cast<Header*>(memory) - 1)->size;
    auto* const end_of_head = static_cast<std::byte*>(memory);
    if (all < KeptMemory::kMin + kKeptAlignment) return std::free(end_of_head - kAlignment);
    Kept().Return(end_of_head - kKeptAlignment, all);
  }
};

}  // namespace

void KeepTensorMemory() {
  static auto* const memory = new TensorMemory;  // as Kept
  c10::SetCPUAllocator(memory, /*priority=*/1);
}

void ReleaseTensorMemory() { Kept().Release(); }

}  // namespace swarm::model
