#include "operator/plan/pools/pools.h"

#include <algorithm>

#include "operator/plan/pods/backoff.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

constexpr seconds kProbeCap{3600};

seconds PendingLimit(const PoolView& pool) {
  return seconds(static_cast<std::int64_t>(pool.spec->pendingSeconds));
}
seconds ReturnAfter(const PoolView& pool) {
  return seconds(static_cast<std::int64_t>(pool.spec->returnAfterSeconds));
}

bool WaitsTooLong(WallTime now, const PoolView& pool) {
  return pool.load.waits_since && now - *pool.load.waits_since >= PendingLimit(pool);
}

}  // namespace

void MarkDry(WallTime now, const std::string& job_uid, PoolView* pool) {
  api::PoolStatus& memory = pool->memory;
  // A pool that has been available for long starts again with the shortest back-off.
  if (memory.state == api::PoolState::kAvailable && memory.since &&
      now - *memory.since > 2 * ReturnAfter(*pool)) {
    memory.attempts = 0;
  }
  ++memory.attempts;
  memory.state = api::PoolState::kDry;
  memory.since = now;
  memory.retryTime =
      now + BackOff(ReturnAfter(*pool), kProbeCap, memory.attempts, job_uid + "/" + memory.name);
}

void Remember(WallTime now, const std::string& job_uid, std::vector<PoolView>* pools) {
  for (PoolView& pool : *pools) {
    api::PoolStatus& memory = pool.memory;
    if (pool.usable()) {
      if (!WaitsTooLong(now, pool)) continue;
      MarkDry(now, job_uid, &pool);
    } else if (pool.load.placed_last && memory.since && *pool.load.placed_last > *memory.since) {
      memory.state = api::PoolState::kAvailable;
      memory.since = now;
      memory.retryTime.reset();
      continue;
    }
    // `since` stays the time when the pool ran dry. A pod that gets a node later shows that
    // capacity is back.
    memory.state = pool.load.waiting > 0 ? api::PoolState::kProbing : api::PoolState::kDry;
  }
}

namespace {

std::uint64_t PodsFor(std::uint64_t workers, const PoolView& pool) {
  return workers / pool.pod_workers + (workers % pool.pod_workers > 0 ? 1 : 0);
}

}  // namespace

std::vector<PoolTarget> Spread(std::uint64_t wanted, const std::vector<PoolView>& pools) {
  std::vector<PoolTarget> targets(pools.size());
  std::uint64_t rest = wanted;
  const auto give = [&](std::size_t i, std::uint64_t pods) {
    const std::uint64_t room = pools[i].limit() - std::min(pools[i].limit(), targets[i].pods);
    const std::uint64_t given = std::min({room, PodsFor(rest, pools[i]), pods});
    targets[i].pods += given;
    rest -= std::min(rest, given * pools[i].pod_workers);
  };
  // Pods that wait in a less preferred pool which may still give them nodes are left there.
  std::uint64_t waiting_elsewhere = 0;
  for (const PoolView& pool : pools) {
    if (!pool.usable()) continue;
    waiting_elsewhere += pool.pod_workers * (pool.load.waiting + pool.load.gated);
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const PoolLoad& load = pools[i].load;
    if (!pools[i].usable()) {
      give(i, load.placed + load.gated);
      continue;
    }
    waiting_elsewhere -= pools[i].pod_workers * (load.waiting + load.gated);
    const std::uint64_t here = rest - std::min(rest, waiting_elsewhere);
    give(i, std::max(pools[i].pods(), PodsFor(here, pools[i])));
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (!pools[i].usable()) give(i, pools[i].load.waiting);
  }
  for (std::size_t i = pools.size(); i-- > 0;) give(i, rest);

  bool worse_in_use = false;
  for (std::size_t i = pools.size(); i-- > 0;) {
    const PoolView& pool = pools[i];
    const bool all_placed = targets[i].pods <= pool.load.placed + pool.load.gated;
    targets[i].probe =
        !pool.usable() && worse_in_use && all_placed && targets[i].pods < pool.limit();
    worse_in_use |= targets[i].pods > 0;
  }
  return targets;
}

std::optional<WallTime> NextChange(WallTime now, const std::vector<PoolView>& pools) {
  std::optional<WallTime> next;
  const auto consider = [&](WallTime time) {
    if (time > now && (!next || time < *next)) next = time;
  };
  for (const PoolView& pool : pools) {
    if (pool.usable() && pool.load.waits_since) {
      consider(*pool.load.waits_since + PendingLimit(pool));
    }
    if (!pool.usable() && pool.memory.retryTime) consider(*pool.memory.retryTime);
  }
  return next;
}

}  // namespace swarm::plan
