// The sums of gradients of the steps of a stage that is swapped, in its tier.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/exact_sums.h"
#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"
#include "worker/model/swap/segment.h"
#include "worker/model/swap/tier_sum.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// Gradients of one task, or of those that passed together.
struct Contribution {
  /// Floats, one a group. kExact: two of a group whose parameter two segments have, since the
  /// gradient of each is rounded by itself.
  std::vector<TierSum> sums;
  std::vector<Magnitude> magnitudes;  ///< kExact
};

/// One thread uses it, but for Take. Errors are those of TierSum. `exponents`: kExact, one for each
/// slot of the layout, which are the step's.
class StepSums {
 public:
  /// `layout` and `space` must outlive it.
  StepSums(const Layout& layout, api::Accumulation accumulation, tier::Space& space)
      : layout_(layout), accumulation_(accumulation), space_(space) {}

  /// Adds the floats of a segment's group to a contribution, on any thread. They may not be changed
  /// until `leaving` is over.
  Status Take(const Segment::Range& range, const Bytes& floats, Transit* leaving,
              Contribution* contribution) const;

  /// Adds a contribution that is finite to the step's sums.
  Status Add(Contribution contribution, Step step, std::span<const int> exponents);
  void MarkNotFinite(Step step) { steps_[step].finite = false; }
  /// Adds a group's sum of another replica. Errors: also kInvalidArgument, as Stage::Absorb.
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite);
  /// Shows a group's sum to others: the result reads it, on any thread. Zeros if nothing was added.
  std::function<Result<GradientSum>()> BeginRead(Step step, std::uint64_t group,
                                                 std::span<const int> exponents);
  /// The step's sums of which BeginRead has shown these. Null: they are others. A step that is
  /// applied need not have the name under which its tasks were added.
  const std::vector<TierSum>* ShownAs(std::span<const Bytes> sums) const;
  void Erase(Step step) { steps_.erase(step); }
  void Clear() { steps_.clear(); }

 private:
  struct Sums {
    std::vector<TierSum> groups;  ///< none: nothing was added
    bool finite = true;
  };

  bool exact() const { return accumulation_ == api::Accumulation::kExact; }
  /// The contribution's sum that takes gradients of the slot.
  Result<TierSum*> SumFor(const ParameterSlot& slot, Contribution* contribution) const;
  /// Zeros, where a step has no sums yet.
  Status Make(Sums* sums) const;
  /// The sums of a step, to be changed: those that others have are left to them.
  Result<Sums*> Open(Step step);

  const Layout& layout_;
  const api::Accumulation accumulation_;
  tier::Space& space_;
  std::map<Step, Sums> steps_;
};

}  // namespace swarm::model
