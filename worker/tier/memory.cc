#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// Pieces of memory that were given back, for the next ones of about their size. The kernel clears
/// a page when it gives it, which takes longer than to fill it, and passes want the same sizes
/// again and again. What is kept and what is in use are never more than once was in use.
class Kept {
 public:
  /// `size`: of large pages.
  std::byte* Take(std::size_t size, std::size_t* taken) {
    {
      const std::lock_guard lock(mutex_);
      // Of a larger one, an eighth may be wasted.
      const auto fits = by_size_.lower_bound(size);
      if (fits != by_size_.end() && fits->first <= size + size / 8) {
        const auto piece = fits->second;
        std::byte* const memory = piece->memory;
        *taken = piece->size;
        kept_ -= piece->size;
        by_size_.erase(fits);
        pieces_.erase(piece);
        Use(*taken);
        return memory;
      }
      Use(size);
    }
    *taken = size;
    void* const memory = std::aligned_alloc(kLargePage, size);
    SWARM_CHECK(memory != nullptr, "no memory for the bytes of a tier");
    ::madvise(memory, size, MADV_HUGEPAGE);  // without it, the memory is only slower
    return static_cast<std::byte*>(memory);
  }

  void Return(std::byte* memory, std::size_t size) {
    const std::lock_guard lock(mutex_);
    used_ -= size;
    kept_ += size;
    pieces_.push_front({memory, size, {}});
    pieces_.front().by_size = by_size_.emplace(size, pieces_.begin());
  }

 private:
  struct Piece {
    std::byte* memory;
    std::size_t size;
    std::multimap<std::size_t, std::list<Piece>::iterator>::iterator by_size;
  };

  void Use(std::size_t size) {
    used_ += size;
    most_ = std::max(most_, used_);
    while (kept_ + used_ > most_) {
      const Piece oldest = pieces_.back();
      kept_ -= oldest.size;
      by_size_.erase(oldest.by_size);
      pieces_.pop_back();
      std::free(oldest.memory);
    }
  }

  std::mutex mutex_;
  std::list<Piece> pieces_;  ///< that are kept, the newest first
  std::multimap<std::size_t, std::list<Piece>::iterator> by_size_;
  std::size_t kept_ = 0, used_ = 0, most_ = 0;
};

Kept& KeptMemory() {
  static auto* const kept = new Kept;  // never destroyed: memory may outlive static objects
  return *kept;
}

}  // namespace

std::shared_ptr<std::byte[]> MakeMemory(std::size_t bytes) {
  if (bytes < kLargePage) {
    const std::size_t size = RoundUpToBlocks(std::max<std::size_t>(bytes, 1));
    void* const memory = std::aligned_alloc(kBlock, size);
    SWARM_CHECK(memory != nullptr, "no memory for the bytes of a tier");
    return {static_cast<std::byte*>(memory), [](std::byte* m) { std::free(m); }};
  }
  std::size_t size = 0;
  std::byte* const memory =
      KeptMemory().Take((bytes + kLargePage - 1) / kLargePage * kLargePage, &size);
  return {memory, [size](std::byte* m) { KeptMemory().Return(m, size); }};
}

}  // namespace swarm::tier
