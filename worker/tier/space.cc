#include "worker/tier/space.h"

namespace swarm::tier {

struct Space::Core {
  std::unique_ptr<Tier> tier;
  std::mutex mutex;
  std::uint64_t end = 0;                             ///< of what was ever given out
  std::multimap<std::uint64_t, std::uint64_t> free;  ///< offset by size in bytes
};

Space::Space(std::unique_ptr<Tier> tier) : core_(std::make_shared<Core>()) {
  core_->tier = std::move(tier);
}

Tier& Space::tier() const { return *core_->tier; }

Result<std::shared_ptr<const Extent>> Space::Take(std::uint64_t bytes) {
  const std::uint64_t size = RoundUpToBlocks(bytes);
  std::uint64_t offset = 0;
  {
    const std::lock_guard lock(core_->mutex);
    // The sizes are those of a stage's tensors, and come again: extents are not split.
    if (const auto found = core_->free.find(size); found != core_->free.end()) {
      offset = found->second;
      core_->free.erase(found);
    } else {
      RETURN_IF_ERROR(core_->tier->Grow(core_->end + size));
      offset = core_->end;
      core_->end += size;
    }
  }
  const auto give_back = [core = core_, offset, size] {
    const std::lock_guard lock(core->mutex);
    core->free.emplace(size, offset);
  };
  return std::shared_ptr<const Extent>(std::make_shared<Extent>(offset, bytes, give_back));
}

}  // namespace swarm::tier
