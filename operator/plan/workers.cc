#include "operator/plan/workers.h"

#include <algorithm>

#include "api/format/enum_names.h"
#include "operator/names/names.h"
#include "operator/plan/pods/pod_ends.h"
#include "operator/plan/pods/pod_wait.h"
#include "operator/plan/pools/creation_limits.h"
#include "operator/plan/pools/pool_scaler.h"
#include "operator/plan/trainer.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using api::Reason;
using std::chrono::seconds;

/// If some stage has had no worker for this long, and no pool has capacity for one, the other
/// workers are released: they cost money and train nothing. So they are if no node has fitted the
/// trainer's pod for this long.
constexpr seconds kIdle{900};

/// Closes the ordinals of workers that have ended, and counts each end.
void SettleEnds(const ObservedWorkers& workers, Draft* draft) {
  std::vector<std::uint64_t>& open = draft->status().openWorkers;
  std::vector<std::pair<std::string, Judgement>> ends;
  for (const std::uint64_t ordinal : workers.refused) std::erase(open, ordinal);
  for (const std::uint64_t ordinal : workers.vanished) {
    Judgement gone{.health = Health::kEnds, .words = "is gone; the operator has no evidence why"};
    ends.emplace_back(names::PodName(draft->seen.job.name, PodRole::kWorker, ordinal),
                      std::move(gone));
    std::erase(open, ordinal);
  }
  for (const Worker& worker : workers.open) {
    if (worker.judgement.look_again) draft->LookAgain(*worker.judgement.look_again);
    if (worker.judgement.health == Health::kEnds) ends.emplace_back(worker.name, worker.judgement);
    if (worker.judgement.health == Health::kEnds || worker.judgement.health == Health::kDone) {
      std::erase(open, worker.ordinal);
    }
  }
  TellEnds(ends, draft);
  for (const auto& [name, end] : ends) CountEnd(PodRole::kWorker, name, end, draft);
}

/// Creates the pods that this operator has tried to create before, without an answer.
void Recreate(const ObservedWorkers& workers, Draft* draft) {
  for (const Worker& worker : workers.open) {
    if (worker.pod != nullptr || worker.pool.empty() || worker.made || !MayCreate(draft)) continue;
    draft->plan.actions.push_back(CreateWorker{worker.ordinal, worker.pool});
  }
}

bool HasLasted(const Draft& draft, ConditionType type, ConditionStatus value) {
  const api::Condition* condition = api::FindCondition(draft.plan.status, type);
  return condition != nullptr && condition->status == value &&
         draft.now() - condition->lastTransitionTime >= kIdle;
}

/// Whether the operator has given up all workers: then only a probe waits for capacity.
bool IsReleased(const api::SwarmJobStatus& status) {
  const api::Condition* capacity = api::FindCondition(status, ConditionType::kCapacityAvailable);
  return capacity != nullptr && capacity->reason == NameOf(Reason::kReleased);
}

bool ShallRelease(const Draft& draft, const PoolScaler& scaler) {
  const api::Spec& spec = draft.job.spec;
  std::uint64_t placed = 0;
  for (std::size_t i = 0; i < spec.workers.pools.size(); ++i) {
    for (const Worker* worker : scaler.members(i)) placed += worker->placed() ? worker->workers : 0;
  }
  return placed > 0 && placed < std::max(spec.pipeline.stages, spec.workers.minReplicas) &&
         HasLasted(draft, ConditionType::kReady, ConditionStatus::kFalse) &&
         HasLasted(draft, ConditionType::kCapacityAvailable, ConditionStatus::kFalse);
}

void Release(PoolScaler* scaler, Draft* draft) {
  scaler->RemoveAll();
  for (PoolView& pool : scaler->pools()) {
    pool.load = {};
    MarkDry(draft->now(), draft->seen.job.uid, &pool);
  }
  const std::string words =
      "some stages have had no worker for " + std::to_string(kIdle.count()) +
      " s and no pool has capacity, so the operator released all workers; one pod at a time now"
      " probes the pools";
  draft->Set(ConditionType::kCapacityAvailable, ConditionStatus::kFalse, Reason::kReleased, words);
  draft->Warn(Reason::kReleased, words);
}

/// Whether the trainer's pod has waited so long for a node that fits it that workers are not held
/// for it any more. The pod stays: it detects that a node has come.
bool LacksTrainer(Draft* draft) {
  const ObservedPod* trainer = FindTrainer(*draft);
  if (trainer == nullptr || !IsUnschedulable(*trainer)) return false;
  const WallTime due = trainer->waiting_since + kIdle;
  if (draft->now() >= due) return true;
  draft->LookAgain(due);
  return false;
}

void ReleaseUntilTrainerHasNode(PoolScaler* scaler, Draft* draft) {
  scaler->RemoveAll();
  const api::Condition* before =
      api::FindCondition(draft->status(), ConditionType::kCapacityAvailable);
  const bool told = before != nullptr && before->reason == NameOf(Reason::kTrainerUnschedulable);
  const std::string words = "no node has fitted the trainer's pod for " +
                            std::to_string(kIdle.count()) +
                            " s, so the job has no workers until one does";
  draft->Set(ConditionType::kCapacityAvailable, ConditionStatus::kFalse,
             Reason::kTrainerUnschedulable, words);
  if (!told) draft->Warn(Reason::kTrainerUnschedulable, words);
}

/// Lets one pod wait in one pool after the other. Returns true once it has a node.
bool Probe(PoolScaler* scaler, Draft* draft) {
  std::vector<PoolView>& pools = scaler->pools();
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
      while (!scaler->members(i).empty()) scaler->Remove(*scaler->members(i).back());
      MarkDry(draft->now(), draft->seen.job.uid, &pool);
    }
    if (next == nullptr || pool.memory.retryTime < next->memory.retryTime) next = &pool;
  }
  if (next->memory.retryTime && draft->now() < *next->memory.retryTime) {
    draft->LookAgain(*next->memory.retryTime);
  } else if (MayCreate(draft)) {
    scaler->Add(static_cast<std::size_t>(next - pools.data()));
  }
  return false;
}

/// The number of pods that wait in pools without capacity.
std::uint64_t Stranded(const std::vector<PoolView>& pools, const std::vector<PoolTarget>& targets) {
  std::uint64_t stranded = 0;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const std::uint64_t has = pools[i].load.placed + pools[i].load.gated;
    if (!pools[i].usable() && targets[i].pods > has) stranded += targets[i].pods - has;
  }
  return stranded;
}

/// "; new pods avoid node spot-b (3 failures) and 2 more"; empty: they avoid none.
std::string AvoidedText(const api::SwarmJobStatus& status) {
  const api::NodeStatus* worst = nullptr;
  std::uint64_t avoided = 0;
  for (const api::NodeStatus& node : status.nodes) {
    if (!node.avoided) continue;
    ++avoided;
    if (worst == nullptr || node.failures > worst->failures) worst = &node;
  }
  if (worst == nullptr) return "";
  std::string text = "; new pods avoid node " + worst->name + " (" +
                     std::to_string(worst->failures) +
                     (worst->failures == 1 ? " failure)" : " failures)");
  if (avoided > 1) text += " and " + std::to_string(avoided - 1) + " more";
  return text;
}

void SetCapacity(const std::vector<PoolView>& pools, const std::vector<PoolTarget>& targets,
                 Draft* draft) {
  if (const auto& refusal = draft->seen.refusal) {
    const bool quota = refusal->code == StatusCode::kResourceExhausted;
    draft->Set(ConditionType::kCapacityAvailable, ConditionStatus::kFalse,
               quota ? Reason::kQuotaExceeded : Reason::kPodRefused, refusal->message);
  } else if (Stranded(pools, targets) > 0) {
    const ObservedPod* first = FirstThatWaits(draft->seen, /*unbound=*/true);
    draft->Set(ConditionType::kCapacityAvailable, ConditionStatus::kFalse, Reason::kNoCapacity,
               "workers wait for nodes, and no pool has capacity" +
                   (first == nullptr ? "" : "; " + first->name + ": " + WordsOfWait(*first)) +
                   AvoidedText(draft->status()));
  } else {
    draft->Set(
        ConditionType::kCapacityAvailable, ConditionStatus::kTrue, Reason::kAvailable,
        "no worker waits for a node longer than its pool allows" + AvoidedText(draft->status()));
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
      draft->Warn(Reason::kPoolDry, "pool " + pool.spec->name + " has no capacity");
    } else if (!was_usable && pool.usable()) {
      draft->Tell(Reason::kPoolReturned, "pool " + pool.spec->name + " has capacity again");
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

/// Brings every pool to its share of the wanted workers.
void Scale(PoolScaler* scaler, Draft* draft) {
  std::vector<PoolView>& pools = scaler->pools();
  const api::Spec& spec = draft->job.spec;
  const std::uint64_t wanted = std::max(spec.workers.replicas, spec.pipeline.stages);
  const std::vector<PoolTarget> targets =
      Spread(wanted - std::min(wanted, scaler->unseen()), pools);
  scaler->ScaleTo(targets);
  SetCapacity(pools, targets, draft);
}

}  // namespace

void DecideWorkers(Draft* draft) {
  const ObservedWorkers workers = ObserveWorkers(draft->evidence);
  if (workers.look_again) draft->LookAgain(*workers.look_again);
  SettleEnds(workers, draft);
  if (draft->finished()) return;
  Recreate(workers, draft);
  PoolScaler scaler(workers.open, draft);
  Remember(draft->now(), draft->seen.job.uid, &scaler.pools());
  if (LacksTrainer(draft)) {
    ReleaseUntilTrainerHasNode(&scaler, draft);
  } else if (IsReleased(draft->status())) {
    if (Probe(&scaler, draft)) {
      for (PoolView& pool : scaler.pools()) {
        pool.memory.state = api::PoolState::kAvailable;
        pool.memory.since = draft->now();
        pool.memory.retryTime.reset();
      }
      Scale(&scaler, draft);
    }
  } else if (ShallRelease(*draft, scaler)) {
    Release(&scaler, draft);
  } else {
    Scale(&scaler, draft);
  }
  StorePools(scaler.pools(), draft);
}

}  // namespace swarm::plan
