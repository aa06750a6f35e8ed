// What a task carries from one segment of a swapped stage to the next: in memory, or in the tier
// until it is wanted.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/model/swap/tensor_shelf.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// Used by one thread. May be taken several times.
class Parcel {
 public:
  /// Stays in memory, which `held` counts.
  explicit Parcel(Bytes bytes, std::shared_ptr<const void> held = nullptr)
      : bytes_(std::move(bytes)), held_(std::move(held)) {}
  /// Begins to write the bytes to the tier. `space` and `gauge` must outlive what it gives. Errors:
  /// kResourceExhausted.
  static Result<std::shared_ptr<Parcel>> Send(tier::Space& space, MemoryGauge& gauge, Bytes bytes);

  /// Waits until it has left memory. Errors: those of the tier.
  Status Settle();
  /// Begins to bring it.
  void Begin();
  /// The bytes; waits for them. Errors: those of the tier.
  Result<Bytes> Take();

 private:
  Bytes bytes_;
  std::shared_ptr<const void> held_;

  tier::Space* space_ = nullptr;  // null: in memory, and the rest is of no use
  MemoryGauge* gauge_ = nullptr;
  std::shared_ptr<const tier::Extent> extent_;
  Bytes coming_;                // where they are wanted; empty: nowhere
  Transit leaving_, bringing_;  // last: they use the others until they are over
};

}  // namespace swarm::model
