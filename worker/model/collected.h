// What stages share that collect tasks until the executing thread has no other work (Stage::Work).
#pragma once

#include <algorithm>

#include "worker/model/stage.h"

namespace swarm::model {

/// A backward that was submitted and not computed yet.
struct Backwarding {
  TaskKey key;
  Bytes gradient;
  Done<BackwardResult> done;
};

/// Whether one of the backwards waits for a forward that was not computed yet either.
template <typename Forwards, typename Backwards>
bool AwaitForwards(const Forwards& forwards, const Backwards& backwards) {
  return std::ranges::any_of(backwards, [&](const Backwarding& backward) {
    return std::ranges::any_of(forwards,
                               [&](const auto& forward) { return forward.key == backward.key; });
  });
}

}  // namespace swarm::model
