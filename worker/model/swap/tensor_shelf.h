// The named tensors of a stage whose numbers are in a tier, and a few in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "worker/checkpoint/tensor.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// Bytes in memory at a moment, and the most so far. Thread-safe.
class MemoryGauge {
 public:
  /// So many more, as long as the result lives; the gauge outlives it.
  std::shared_ptr<const void> Hold(std::uint64_t bytes);
  std::uint64_t peak() const { return peak_.load(); }

 private:
  std::atomic<std::uint64_t> now_{0}, peak_{0};
};

/// One thread changes it. What it gives out may be read on any thread, until it is replaced or
/// changed; what was mapped stays.
class TensorShelf {
 public:
  /// Both must outlive this.
  TensorShelf(tier::Space& space, MemoryGauge& gauge) : space_(space), gauge_(gauge) {}

  /// Takes a tensor under its name: begins to write its numbers, which must live until the transit
  /// is over, and computes the digests of its pieces. Integers stay in memory. Errors:
  /// kResourceExhausted.
  Status Put(const checkpoint::NamedTensor& tensor, Transit* transit);
  /// What is under `name` is from now on under `as`, too, where it stays when another tensor is put
  /// under `name`: that gets a place of its own. Requires a tensor.
  void Keep(const std::string& name, const std::string& as);
  /// Forgets all tensors.
  void Clear() { entries_.clear(); }
  /// Where in a tensor its first piece begins, for those that are put from now on
  /// (checkpoint::FindFirstPieces); twice of one that will be kept under another name. What Show
  /// gives then knows their digests.
  void SetFirstPieces(std::multimap<std::string, std::uint64_t> first) {
    first_ = std::move(first);
  }
  /// All, by name. Numbers in the tier are elsewhere; `reader` lives as long as one of them.
  std::vector<checkpoint::NamedTensor> Show(const std::shared_ptr<const void>& reader) const;
  bool Has(const std::string& name) const { return entries_.contains(name); }
  std::size_t size() const { return entries_.size(); }
  /// The int64 under that name; requires it.
  std::int64_t Number(const std::string& name) const;

  /// Tensors on their way to memory.
  class Loading {
   public:
    /// Until all are there. Errors: those of the tier.
    Status Wait() { return transit_.Wait(); }
    bool IsOver() const { return transit_.IsOver(); }
    /// One of them, or a number; waits for it. kNotFound for other names.
    Result<checkpoint::NamedTensor> Find(const std::string& name);

   private:
    friend class TensorShelf;
    const TensorShelf* shelf_ = nullptr;
    std::map<std::string, checkpoint::NamedTensor> tensors_;
    std::shared_ptr<const void> held_;
    Transit transit_;
  };
  /// Where the bytes of the tensor `from` are wanted, and the name by which it will be asked for.
  struct Place {
    std::string name, from;
    std::shared_ptr<std::byte[]> memory;
  };
  /// Begins to bring tensors. Requires that they are here.
  std::unique_ptr<Loading> Begin(const std::vector<Place>& places) const;

 private:
  /// Of a tensor whose first piece begins at `first`.
  struct Pieces {
    std::uint64_t first = 0;
    std::vector<Digest> digests;
  };
  struct Entry {
    checkpoint::NamedTensor tensor;  ///< without data where it is in the tier
    std::shared_ptr<const tier::Extent> extent;
    std::shared_ptr<const std::vector<Pieces>> pieces;  ///< that are known; null in memory
  };
  class InTier;

  tier::Space& space_;
  MemoryGauge& gauge_;
  std::map<std::string, Entry> entries_;
  std::multimap<std::string, std::uint64_t> first_;
};

}  // namespace swarm::model
