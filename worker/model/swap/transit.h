// Reads and writes of a tier that are under way.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/tier/tier.h"

namespace swarm::model {

/// Bytes on their way from a tier, or to it. Movable; waits when it dies.
class Transit {
 public:
  Transit() = default;
  Transit(Transit&&) = default;
  Transit& operator=(Transit&& other);
  ~Transit() { (void)Wait(); }
  /// Errors: those of the tier.
  Status Wait();
  /// Whether Wait would not wait.
  bool IsOver() const;

  /// Begins to write bytes, which are kept until they are there.
  void Write(tier::Tier& tier, std::uint64_t offset, const Bytes& bytes);
  /// Begins to fill `size` bytes of `memory`, which is kept the same way.
  void Read(tier::Tier& tier, std::uint64_t offset, const std::shared_ptr<std::byte[]>& memory,
            std::size_t size);

 private:
  /// One more is on its way, with what is kept for it.
  tier::Tier::Done Begin(std::shared_ptr<const void> kept);

  std::vector<std::future<Status>> results_;
  std::vector<std::shared_ptr<const void>> kept_;
  Status status_;
};

}  // namespace swarm::model
