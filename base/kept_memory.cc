#include "base/kept_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace swarm {
namespace {

constexpr std::size_t kSector = 512;
constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t UpTo(std::size_t size, std::size_t grain) { return (size + grain - 1) / grain * grain; }

/// Not malloc's: what it got for them would be lent to small ones, and never go back.
std::byte* MapLargePages(std::size_t length) {
  const std::size_t mapped = length + kLargePage;
  void* const all =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all);
  const std::size_t before = UpTo(reinterpret_cast<std::uintptr_t>(begin), kLargePage) -
                             reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) ::munmap(begin, before);
  std::byte* const memory = begin + before;
  if (before < kLargePage) ::munmap(memory + length, kLargePage - before);
  ::madvise(memory, length, MADV_HUGEPAGE);  // without it, the memory is only slower
  return memory;
}

}  // namespace

/// Stands in the first bytes of what is kept.
struct KeptMemory::Piece {
  std::size_t size;
  Neighbours of_all = {}, of_size = {};
};

void KeptMemory::Queue::Push(Piece* piece, Neighbours Piece::* at) {
  (piece->*at).older = newest;
  (newest == nullptr ? oldest : (newest->*at).newer) = piece;
  newest = piece;
}

void KeptMemory::Queue::Remove(Piece* piece, Neighbours Piece::* at) {
  const Neighbours of = piece->*at;
  (of.older == nullptr ? oldest : (of.older->*at).newer) = of.newer;
  (of.newer == nullptr ? newest : (of.newer->*at).older) = of.older;
}

std::size_t KeptMemory::RoundUp(std::size_t size) {
  return size < kMin ? size : UpTo(size, std::bit_floor(size) / 8);
}

std::byte* KeptMemory::Fresh(std::size_t size) const {
  const bool is_large = pages_ == Pages::kLarge;
  if (is_large && size >= kLargePage) return MapLargePages(UpTo(size, kPage));
  const std::size_t alignment = is_large ? kPage : kSector;
  return static_cast<std::byte*>(std::aligned_alloc(alignment, UpTo(size, alignment)));
}

void KeptMemory::Free(std::byte* memory, std::size_t size) const {
  if (pages_ != Pages::kLarge || size < kLargePage) return std::free(memory);
  ::munmap(memory, UpTo(size, kPage));
}

std::byte* KeptMemory::Take(std::size_t size) {
  const std::lock_guard lock(mutex_);
  used_ += size;
  std::byte* memory = nullptr;
  if (const auto found = by_size_.find(size);
      found != by_size_.end() && found->second.newest != nullptr) {
    memory = Leave(found->second.newest);
  } else {
    FreeWhatIsTooMuch();
    memory = Fresh(size);
  }
  if (memory == nullptr) {
    FreeAll();
    memory = Fresh(size);
  }
  if (memory == nullptr) {
    used_ -= size;
  } else {
    most_ = std::max(most_, used_);
  }
  return memory;
}

void KeptMemory::Return(std::byte* memory, std::size_t size) {
  const std::lock_guard lock(mutex_);
  used_ -= size;
  kept_ += size;
  auto* const piece = new (memory) Piece{size};
  ages_.Push(piece, &Piece::of_all);
  by_size_[size].Push(piece, &Piece::of_size);
  FreeWhatIsTooMuch();
}

void KeptMemory::Release() {
  const std::lock_guard lock(mutex_);
  FreeAll();
}

void KeptMemory::FreeAll() {
  while (ages_.oldest != nullptr) FreeOldest();
}

void KeptMemory::FreeWhatIsTooMuch() {
  const auto is_too_much = [this] {
    return kept_ + (bound_ == Bound::kWithUsed ? used_ : 0) > most_;
  };
  while (ages_.oldest != nullptr && is_too_much()) FreeOldest();
}

std::byte* KeptMemory::Leave(Piece* piece) {
  kept_ -= piece->size;
  ages_.Remove(piece, &Piece::of_all);
  by_size_.at(piece->size).Remove(piece, &Piece::of_size);
  return reinterpret_cast<std::byte*>(piece);
}

void KeptMemory::FreeOldest() {
  const std::size_t size = ages_.oldest->size;
  Free(Leave(ages_.oldest), size);
}

}  // namespace swarm
