// Where worker pods go. Pools are used in order of preference. A pool without capacity is skipped
// in favour of the next one, and used again when it has capacity. Pure.
//
// A pod that waits for a node is the autoscaler's signal to add one, so it is left alone. It moves
// only after it has waited for pendingSeconds and another pool can take it. One waiting pod stays
// behind as a probe. When the probe gets a node, the pool counts as available again: workers in
// less preferred pools are replaced there, and removed once their replacements are ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::plan {

using api::WallTime;

/// The worker pods of a pool that shall stay.
struct PoolLoad {
  std::uint64_t placed = 0;   ///< pods that have a node
  std::uint64_t waiting = 0;  ///< pods that wait for a node, and pods not created yet
  std::uint64_t gated = 0;    ///< pods with scheduling gates: they say nothing about capacity
  std::optional<WallTime> waits_since;  ///< since when the longest of `waiting` has waited
  std::optional<WallTime> placed_last;  ///< the latest time that a pod got its node
};

/// A pool, identified by its position in the manifest, with what the operator remembers of it.
struct PoolView {
  const api::Pool* spec = nullptr;
  PoolLoad load;
  api::PoolStatus memory;
  std::uint64_t pod_workers = 1;  ///< of a new pod
  bool reachable = true;          ///< false: it keeps the pods that it has
  /// How many pods the job's queue admitted; without a queue no limit.
  std::uint64_t admitted = ~std::uint64_t{0};

  bool usable() const { return memory.state == api::PoolState::kAvailable; }
  std::uint64_t pods() const { return load.placed + load.waiting + load.gated; }
  /// Pods: maxReplicas counts workers.
  std::uint64_t limit() const {
    const std::uint64_t most =
        std::min(admitted, spec->maxReplicas.value_or(~std::uint64_t{0}) / pod_workers);
    return reachable ? most : std::min(most, pods());
  }
};

/// Updates the memory of each pool from its load: a pod that waits too long makes the pool dry, and
/// a pod that got a node makes it available. `job_uid` seeds the jitter of the back-off.
void Remember(WallTime now, const std::string& job_uid, std::vector<PoolView>* pools);

/// How many pods a pool shall have.
struct PoolTarget {
  std::uint64_t pods = 0;
  bool probe = false;  ///< one more pod, which waits to detect that capacity returns
};

/// Spreads the wanted workers over the pools. Workers for which no pool has capacity wait where
/// they wait already, or in the least preferred pool that may grow. The targets never exceed the
/// pools' maxReplicas. Pods are whole, so the last one may have more workers than are wanted.
std::vector<PoolTarget> Spread(std::uint64_t wanted, const std::vector<PoolView>& pools);

/// When time alone changes the result of Remember or Spread; none: it does not.
std::optional<WallTime> NextChange(WallTime now, const std::vector<PoolView>& pools);

/// Marks a pool as without capacity from now on.
void MarkDry(WallTime now, const std::string& job_uid, PoolView* pool);

}  // namespace swarm::plan
