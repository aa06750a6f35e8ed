// A sum of gradients in a tier: a group's, of a step or of the tasks that passed together. It is
// written parameter by parameter, and comes to memory a few megabytes at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "worker/model/layout/parameters.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// Movable. One thread changes it. Its functions wait for the tier, unless they are given a
/// transit, and have errors: kDataLoss (the tier fails; the sum is then of no use).
class TierSum {
 public:
  enum class Element { kFloat, kInteger };

  /// Zeros: of `slots`, those of the group that `group` is. `space` must outlive it. Errors:
  /// kResourceExhausted.
  static Result<TierSum> Make(tier::Space& space, std::span<const ParameterSlot> slots,
                              std::uint64_t group, Element element);
  Result<TierSum> Copy() const;
  std::uint64_t group() const { return group_; }
  std::uint64_t bytes() const { return extent_->size(); }

  // `offset` is ParameterSlot::offset, and names the parameter.

  /// Whether anything was added to the parameter's.
  bool Holds(std::uint64_t offset) const { return parts_[IndexOf(offset)].written; }
  /// Adds floats to the parameter's. What is the first of it begins to be written, and may not be
  /// changed until `leaving` is over.
  Status Add(std::uint64_t offset, const Bytes& floats, Transit* leaving);
  /// Adds those of a sum of floats.
  Status Add(std::uint64_t offset, const TierSum& floats);
  /// The same to integers (optim/fixed_point.h). `largest` is the largest magnitude of the floats.
  Status AddQuantized(std::uint64_t offset, const TierSum& floats, int exponent, float largest);
  /// Adds a whole sum of the same elements.
  Status AddAll(std::span<const std::byte> elements);

  struct Shown {
    Bytes elements;                     ///< as memory that others read (Tier::Map)
    std::vector<Digest> piece_digests;  ///< GradientSum::piece_digests
    std::vector<double> squared_norms;  ///< GradientSum::squared_norms; of integers, unscaled
  };
  /// Reads all of it once.
  Result<Shown> Show();
  /// The same: the result reads, on any thread. The sum is in use until the result is gone.
  using Read = std::function<Result<Shown>()>;
  Result<Read> BeginShow();
  /// Whether `bytes` are elements that Show has given.
  bool IsShownAs(const Bytes& bytes) const;
  /// Whether elements that Show has given are in use. Then the sum may not be changed.
  bool IsShown() const { return extent_.use_count() > 1; }
  /// Begins to bring `count` elements.
  Bytes Bring(std::uint64_t first, std::uint64_t count, Transit* coming) const;

 private:
  struct Part {
    std::uint64_t offset, count;
    bool written = false;  ///< if not, it is zeros, whatever the tier has
  };

  TierSum(tier::Space& space, std::uint64_t group, Element element)
      : space_(&space), group_(group), element_(element) {}
  std::uint64_t width() const { return element_ == Element::kFloat ? sizeof(float) : 8; }
  /// Into parts_.
  std::size_t IndexOf(std::uint64_t offset) const;
  /// Calls change(span<T>, at) for some elements of a part after the other, `at` counting from its
  /// beginning, and writes what it leaves.
  template <typename T, typename Body>
  Status Change(Part& part, Body change);
  /// Calls add(floats, span<T>) for some elements of the parameter after the other.
  template <typename T, typename Body>
  Status AddFrom(std::uint64_t offset, const TierSum& floats, Body add);
  /// Parts that were not written are zeros in the tier, too.
  Status FillGaps();
  /// Writes bytes within a block, and leaves the rest of it.
  Status Patch(std::uint64_t begin, std::span<const std::byte> bytes);
  template <typename T>
  Status Look(Shown* shown) const;

  tier::Space* space_;
  std::uint64_t group_;
  Element element_;
  std::vector<Part> parts_;
  std::shared_ptr<const tier::Extent> extent_;
  std::weak_ptr<const Bytes> shown_;  ///< what Show gave last, while it is in use
};

}  // namespace swarm::model
