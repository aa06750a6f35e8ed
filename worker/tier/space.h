// Extents: pieces of a tier, given out and taken back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "worker/tier/tier.h"

namespace swarm::tier {

/// Bytes of a tier that are the owner's until it dies.
class Extent {
 public:
  Extent(std::uint64_t offset, std::uint64_t size, std::function<void()> give_back)
      : offset_(offset), size_(size), give_back_(std::move(give_back)) {}
  ~Extent() { give_back_(); }
  Extent(const Extent&) = delete;
  Extent& operator=(const Extent&) = delete;

  std::uint64_t offset() const { return offset_; }
  std::uint64_t size() const { return size_; }

 private:
  const std::uint64_t offset_, size_;
  const std::function<void()> give_back_;
};

/// Thread-safe. Extents may outlive it, and keep the tier alive.
class Space {
 public:
  explicit Space(std::unique_ptr<Tier> tier);
  Tier& tier() const;
  /// Errors: kResourceExhausted.
  Result<std::shared_ptr<const Extent>> Take(std::uint64_t bytes);

 private:
  struct Core;
  const std::shared_ptr<Core> core_;
};

}  // namespace swarm::tier
