#include "operator/plan/workers.h"

#include <algorithm>

#include "operator/plan/ends.h"
#include "operator/plan/refusals.h"
#include "operator/plan/staffing.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using std::chrono::seconds;

constexpr const char* kReleased = "Released";
/// Some stage has had no worker for this long, and there is no capacity for one: the others do not
/// go on burning money.
constexpr seconds kIdle{900};

/// Takes what has ended out of the account, each with its counter.
void SettleEnds(const Workforce& force, Draft* draft) {
  std::vector<std::uint64_t>& open = draft->status().openWorkers;
  std::vector<std::pair<std::string, Judgement>> ends;
  for (const std::uint64_t ordinal : force.refused) std::erase(open, ordinal);
  for (const std::uint64_t ordinal : force.vanished) {
    Judgement gone{.health = Health::kEnds, .words = "is gone, and nobody saw why"};
    ends.emplace_back(PodName(draft->seen.job.name, PodRole::kWorker, ordinal), std::move(gone));
    std::erase(open, ordinal);
  }
  for (const Worker& worker : force.workers) {
    if (worker.judgement.look_again) draft->LookAgain(*worker.judgement.look_again);
    if (worker.judgement.health == Health::kEnds) ends.emplace_back(worker.name, worker.judgement);
    if (worker.judgement.health == Health::kEnds || worker.judgement.health == Health::kDone) {
      std::erase(open, worker.ordinal);
    }
  }
  TellEnds(ends, draft);
  for (const auto& [name, end] : ends) CountEnd(PodRole::kWorker, name, end, draft);
}

/// Names that are reserved, and whose creation nobody has confirmed, are asked for again.
void Recreate(const Workforce& force, Draft* draft) {
  for (const Worker& worker : force.workers) {
    if (worker.pod != nullptr || worker.pool.empty() || !MayCreate(draft)) continue;
    draft->plan.actions.push_back(CreateWorker{worker.ordinal, worker.pool});
  }
}

bool HasLasted(const Draft& draft, std::string_view type, ConditionStatus value) {
  const api::Condition* condition = api::FindCondition(draft.plan.status, type);
  return condition != nullptr && condition->status == value &&
         draft.now() - condition->lastTransitionTime >= kIdle;
}

bool ShallRelease(const Draft& draft, const Staffing& staffing) {
  const api::Spec& spec = draft.job.spec;
  std::uint64_t placed = 0;
  for (std::size_t i = 0; i < spec.workers.pools.size(); ++i) {
    for (const Worker* worker : staffing.members(i)) placed += worker->placed() ? 1 : 0;
  }
  return placed > 0 && placed < std::max(spec.pipeline.stages, spec.workers.minReplicas) &&
         HasLasted(draft, api::kReady, ConditionStatus::kFalse) &&
         HasLasted(draft, api::kCapacityAvailable, ConditionStatus::kFalse);
}

void Release(Staffing* staffing, Draft* draft) {
  staffing->RemoveAll();
  for (PoolView& pool : staffing->pools()) {
    pool.load = {};
    MarkDry(draft->now(), draft->seen.job.uid, &pool);
  }
  const std::string words =
      "some stages have had no worker for " + std::to_string(kIdle.count()) +
      " s and there is no capacity: all workers were released; one pod at a time looks for more";
  draft->Set(api::kCapacityAvailable, ConditionStatus::kFalse, kReleased, words);
  draft->Warn(kReleased, words);
}

/// One pod waits, now in this pool and now in that. True once it has got a node.
bool Probe(Staffing* staffing, Draft* draft) {
  std::vector<PoolView>& pools = staffing->pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].load.placed > 0) return true;
  }
  PoolView* next = nullptr;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    PoolView& pool = pools[i];
    if (pool.pods() > 0) {
      const auto limit = seconds(static_cast<std::int64_t>(pool.spec->pendingSeconds));
      const WallTime due = pool.load.waits_since.value_or(draft->now()) + limit;
      if (draft->now() < due || pool.load.gated > 0) {
        draft->LookAgain(due);
        return false;
      }
      while (!staffing->members(i).empty()) staffing->Remove(*staffing->members(i).back());
      MarkDry(draft->now(), draft->seen.job.uid, &pool);
    }
    if (next == nullptr || pool.memory.retryTime < next->memory.retryTime) next = &pool;
  }
  if (next->memory.retryTime && draft->now() < *next->memory.retryTime) {
    draft->LookAgain(*next->memory.retryTime);
  } else if (MayCreate(draft)) {
    staffing->Add(static_cast<std::size_t>(next - pools.data()));
  }
  return false;
}

/// Of workers that wait where nothing is to be had.
std::uint64_t Stranded(const std::vector<PoolView>& pools, const std::vector<PoolTarget>& targets) {
  std::uint64_t stranded = 0;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const std::uint64_t has = pools[i].load.placed + pools[i].load.gated;
    if (!pools[i].usable() && targets[i].workers > has) stranded += targets[i].workers - has;
  }
  return stranded;
}

void SetCapacity(const std::vector<PoolView>& pools, const std::vector<PoolTarget>& targets,
                 Draft* draft) {
  if (const auto& refusal = draft->seen.refusal) {
    const bool quota = refusal->code == StatusCode::kResourceExhausted;
    draft->Set(api::kCapacityAvailable, ConditionStatus::kFalse,
               quota ? "QuotaExceeded" : "PodRefused", refusal->message);
  } else if (Stranded(pools, targets) > 0) {
    draft->Set(api::kCapacityAvailable, ConditionStatus::kFalse, "NoCapacity",
               "workers wait for nodes, and no pool has any for them");
  } else {
    draft->Set(api::kCapacityAvailable, ConditionStatus::kTrue, "Available",
               "no worker waits for a node longer than its pool allows");
  }
}

void TellPools(const std::vector<PoolView>& pools, Draft* draft) {
  const auto& before = draft->seen.job.status.pools;
  for (const PoolView& pool : pools) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const api::PoolStatus& p) {
      return p.name == pool.spec->name;
    });
    const bool was_usable = known == before.end() || known->state == api::PoolState::kAvailable;
    if (was_usable && !pool.usable()) {
      draft->Warn("PoolDry", "pool " + pool.spec->name + " has no capacity");
    } else if (!was_usable && pool.usable()) {
      draft->Tell("PoolReturned", "pool " + pool.spec->name + " has capacity again");
    }
  }
}

void StorePools(const std::vector<PoolView>& pools, Draft* draft) {
  TellPools(pools, draft);
  draft->status().pools.clear();
  for (const PoolView& pool : pools) {
    if (!pool.usable() || pool.memory.attempts > 0) {
      draft->status().pools.push_back(pool.memory);
    }
  }
  if (const auto next = NextChange(draft->now(), pools)) draft->LookAgain(*next);
}

void Staff(Staffing* staffing, Draft* draft) {
  std::vector<PoolView>& pools = staffing->pools();
  const api::Spec& spec = draft->job.spec;
  const std::uint64_t wanted = std::max(spec.workers.replicas, spec.pipeline.stages);
  const std::vector<PoolTarget> targets =
      Spread(wanted - std::min(wanted, staffing->unseen()), pools);
  staffing->Adjust(targets);
  SetCapacity(pools, targets, draft);
}

}  // namespace

bool IsReleased(const api::SwarmJobStatus& status) {
  const api::Condition* capacity = api::FindCondition(status, api::kCapacityAvailable);
  return capacity != nullptr && capacity->reason == kReleased;
}

void DecideWorkers(Draft* draft) {
  const Workforce force = Gather(draft->seen);
  if (force.look_again) draft->LookAgain(*force.look_again);
  SettleEnds(force, draft);
  if (draft->finished()) return;
  Recreate(force, draft);
  Staffing staffing(force.workers, draft);
  Remember(draft->now(), draft->seen.job.uid, &staffing.pools());
  if (IsReleased(draft->status())) {
    if (Probe(&staffing, draft)) {
      for (PoolView& pool : staffing.pools()) {
        pool.memory.state = api::PoolState::kAvailable;
        pool.memory.since = draft->now();
        pool.memory.retryTime.reset();
      }
      Staff(&staffing, draft);
    }
  } else if (ShallRelease(*draft, staffing)) {
    Release(&staffing, draft);
  } else {
    Staff(&staffing, draft);
  }
  StorePools(staffing.pools(), draft);
}

}  // namespace swarm::plan
