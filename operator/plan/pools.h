// Where workers' pods go: pools in order of preference, of which one that has no capacity is left
// for the next one, and returned to when it has some again. Pure.
//
// A pod that waits for a node is the autoscaler's signal, so it is left alone: only when it has
// waited for pendingSeconds and another pool can take it does it move, and one of those that wait
// stays behind as the probe. A probe that gets a node brings the pool back, for all: workers in
// less preferred pools are replaced there, and go once their replacements are ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::plan {

using api::WallTime;

/// The workers' pods of a pool that shall stay.
struct PoolLoad {
  std::uint64_t placed = 0;             ///< have a node
  std::uint64_t waiting = 0;            ///< for a node; also those not created yet
  std::uint64_t gated = 0;              ///< held back by somebody; no sign of capacity
  std::optional<WallTime> waits_since;  ///< the longest, of `waiting`
  std::optional<WallTime> placed_last;  ///< the latest time that one got its node
};

/// A pool by its number in the manifest, with what is remembered of it.
struct PoolView {
  const api::Pool* spec = nullptr;
  PoolLoad load;
  api::PoolStatus memory;

  bool usable() const { return memory.state == api::PoolState::kAvailable; }
  std::uint64_t limit() const { return spec->maxReplicas.value_or(~std::uint64_t{0}); }
  std::uint64_t pods() const { return load.placed + load.waiting + load.gated; }
};

/// Brings the memory up to date with what is seen: who waits too long makes a pool dry, who has got
/// a node brings it back. `job_uid` seeds the jitter.
void Remember(WallTime now, const std::string& job_uid, std::vector<PoolView>* pools);

/// How many workers a pool shall have.
struct PoolTarget {
  std::uint64_t workers = 0;
  bool probe = false;  ///< one more, that waits to see the pool return
};

/// Spreads the wanted workers. What no pool has capacity for waits where it waits already, else in
/// the least preferred pool that may grow; beyond all pools' maxReplicas nothing is asked for.
std::vector<PoolTarget> Spread(std::uint64_t wanted, const std::vector<PoolView>& pools);

/// When time alone changes what Remember or Spread say; none: it does not.
std::optional<WallTime> NextChange(WallTime now, const std::vector<PoolView>& pools);

/// Marks a pool as without capacity from now on.
void MarkDry(WallTime now, const std::string& job_uid, PoolView* pool);

}  // namespace swarm::plan
