#include "worker/model/decoder/tensor_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>

namespace swarm::model {
namespace {

constexpr std::size_t kAlignment = 64;                   ///< of tensors; as libtorch has it
constexpr std::size_t kKeptMin = std::size_t{64} << 10;  ///< malloc serves smaller ones well
constexpr std::size_t kKeptAlignment = 512;  ///< direct I/O moves most of them as they are

/// Stands before the memory of every tensor.
struct alignas(kAlignment) Block {
  std::size_t size;  ///< of the memory after it
  // While it is kept: its neighbours in the order in which blocks came.
  Block* older = nullptr;
  Block* newer = nullptr;
};

/// Sizes with three bits after the leading one, so that few distinct ones are kept; wastes < 1/8.
std::size_t RoundUp(std::size_t size) {
  if (size < kKeptMin) return size;
  const std::size_t grain = std::bit_floor(size) / 8;
  return (size + grain - 1) / grain * grain;
}

std::size_t AlignmentOf(std::size_t size) { return size < kKeptMin ? kAlignment : kKeptAlignment; }

Block* FreshBlock(std::size_t size) {
  const std::size_t alignment = AlignmentOf(size);
  const std::size_t bytes = (size + alignment + alignment - 1) / alignment * alignment;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(alignment, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return new (memory + alignment - sizeof(Block)) Block{size};
}

void Free(Block* block) {
  std::free(reinterpret_cast<std::byte*>(block + 1) - AlignmentOf(block->size));
}

class TensorMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* memory = size == 0 ? nullptr : Take(RoundUp(size)) + 1;
    return {memory, memory, &Delete, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }

  static TensorMemory& Instance() {
    static auto* memory = new TensorMemory;  // never destroyed: tensors may outlive static objects
    return *memory;
  }

 private:
  static void Delete(void* memory) {
    if (memory != nullptr) Instance().Return(static_cast<Block*>(memory) - 1);
  }

  Block* Take(std::size_t size) {
    if (size < kKeptMin) return FreshBlock(size);
    {
      const std::lock_guard lock(mutex_);
      used_ += size;
      used_peak_ = std::max(used_peak_, used_);
      std::deque<Block*>& kept = kept_[size];
      if (!kept.empty()) {
        Block* const block = kept.back();
        kept.pop_back();
        Leave(block);
        return block;
      }
    }
    return FreshBlock(size);
  }

  void Return(Block* block) {
    if (block->size < kKeptMin) return Free(block);
    const std::lock_guard lock(mutex_);
    used_ -= block->size;
    // Sizes that are not in demand any more go first.
    while (oldest_ != nullptr && kept_bytes_ + block->size > used_peak_) FreeOldest();
    kept_[block->size].push_back(block);
    kept_bytes_ += block->size;
    block->older = newest_;
    block->newer = nullptr;
    (newest_ == nullptr ? oldest_ : newest_->newer) = block;
    newest_ = block;
  }

  void FreeOldest() {
    Block* const block = oldest_;
    kept_.at(block->size).pop_front();  // the oldest of its size, too
    Leave(block);
    Free(block);
  }

  /// The block has left those of its size.
  void Leave(Block* block) {
    kept_bytes_ -= block->size;
    (block->older == nullptr ? oldest_ : block->older->newer) = block->newer;
    (block->newer == nullptr ? newest_ : block->newer->older) = block->older;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::deque<Block*>> kept_;  ///< by size, the newest last
  Block* oldest_ = nullptr;                         ///< of those that are kept
  Block* newest_ = nullptr;
  std::size_t kept_bytes_ = 0;
  std::size_t used_ = 0;
  std::size_t used_peak_ = 0;
};

}  // namespace

void KeepTensorMemory() { c10::SetCPUAllocator(&TensorMemory::Instance(), /*priority=*/1); }

}  // namespace swarm::model
