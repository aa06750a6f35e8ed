#include <algorithm>
#include <cstdlib>

#include "base/kept_memory.h"
#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

KeptMemory& Kept() {
  // Never destroyed: memory may outlive static objects.
  static auto* const kept = new KeptMemory(KeptMemory::Bound::kWithUsed, KeptMemory::Pages::kLarge);
  return *kept;
}

}  // namespace

std::shared_ptr<std::byte[]> MakeMemory(std::size_t bytes) {
  const std::size_t size = KeptMemory::RoundUp(RoundUpToBlocks(std::max<std::size_t>(bytes, 1)));
  const bool is_kept = size >= KeptMemory::kMin;
  void* const memory = is_kept ? Kept().Take(size) : std::aligned_alloc(kBlock, size);
  SWARM_CHECK(memory != nullptr, "no memory for the bytes of a tier");
  return {static_cast<std::byte*>(memory),
          [is_kept, size](std::byte* m) { is_kept ? Kept().Return(m, size) : std::free(m); }};
}

void ReleaseMemory() { Kept().Release(); }

}  // namespace swarm::tier
