#include "operator/plan/pools/pool_scaler.h"

#include <algorithm>

#include "operator/plan/admission.h"
#include "operator/plan/pods/pod_ends.h"
#include "operator/plan/pools/creation_limits.h"
#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

bool IsPlaced(const Worker& worker) { return worker.placed(); }
bool IsReadyToServe(const Worker& worker) { return worker.ready; }

void Tally(const Worker& worker, PoolLoad* load) {
  if (worker.placed()) {
    ++load->placed;
    if (worker.pod->scheduled) {
      load->placed_last = std::max(load->placed_last.value_or(WallTime{}), *worker.pod->scheduled);
    }
  } else if (worker.gated()) {
    ++load->gated;
  } else {
    ++load->waiting;
    if (worker.pod == nullptr) return;
    const WallTime since = worker.pod->waiting_since;
    load->waits_since = std::min(load->waits_since.value_or(since), since);
  }
}

}  // namespace

PoolScaler::PoolScaler(const std::vector<Worker>& workers, Draft* draft) : draft_(draft) {
  const api::SwarmJobStatus& status = draft->status();
  for (const api::Pool& spec : draft->job.spec.workers.pools) {
    PoolView view{.spec = &spec,
                  .load = {},
                  .memory = {.name = spec.name},
                  .pod_workers = PodSize(draft->seen, spec.name),
                  .reachable = !draft->seen.unreachable_pools.contains(spec.name)};
    if (const auto admitted = AdmittedPods(draft->seen); admitted && spec.cluster.empty()) {
      const auto found = admitted->find(spec.name);
      view.admitted = found == admitted->end() ? 0 : found->second;
    }
    for (const api::PoolStatus& memory : status.pools) {
      if (memory.name == spec.name) view.memory = memory;
    }
    pools_.push_back(std::move(view));
  }
  members_.resize(pools_.size() + 1);
  ready_of_stage_.resize(draft->job.spec.pipeline.stages);
  for (const Worker& worker : workers) {
    if (!worker.stays()) continue;
    if (worker.pod == nullptr && worker.pool.empty()) {
      unseen_ += worker.workers;
      continue;
    }
    std::size_t pool = 0;
    while (pool < pools_.size() && pools_[pool].spec->name != worker.pool) ++pool;
    members_[pool].push_back(&worker);
    if (pool < pools_.size()) Tally(worker, &pools_[pool].load);
    for (const ListedWorker& listed : worker.listed) {
      if (worker.ready && listed.stage < ready_of_stage_.size()) ++ready_of_stage_[listed.stage];
    }
  }
  for (auto& members : members_) std::reverse(members.begin(), members.end());
}

void PoolScaler::ScaleTo(const std::vector<PoolTarget>& targets) {
  RemoveUnplaced(targets);
  AddMissing(targets);
  RemovePlaced(targets);
  if (!direct_.drain.empty() || !direct_.moves.empty()) draft_->plan.actions.push_back(direct_);
}

void PoolScaler::RemoveAll() {
  for (std::size_t pool = 0; pool < members_.size(); ++pool) {
    while (!members_[pool].empty()) Remove(*members_[pool].back());
  }
}

void PoolScaler::Remove(const Worker& worker) {
  std::erase(draft_->status().openWorkers, worker.ordinal);
  Forget(worker);
}

void PoolScaler::Forget(const Worker& worker) {
  for (auto& members : members_) std::erase(members, &worker);
}

void PoolScaler::Add(std::size_t pool) {
  api::SwarmJobStatus& status = draft_->status();
  if (created_ >= CreationsMax(draft_->seen)) {
    return draft_->LookAgain(draft_->now() + std::chrono::seconds(1));
  }
  const std::uint64_t ordinal = status.nextWorkerOrdinal++;
  status.openWorkers.push_back(ordinal);
  draft_->plan.actions.push_back(CreateWorker{ordinal, pools_[pool].spec->name});
  ++created_;
}

std::uint64_t PoolScaler::Count(bool (*counts)(const Worker&)) const {
  std::uint64_t count = 0;
  for (const auto& members : members_) {
    for (const Worker* worker : members) count += counts(*worker) ? worker->workers : 0;
  }
  return count;
}

std::uint64_t PoolScaler::GoalOf(const std::vector<PoolTarget>& targets) const {
  std::uint64_t goal = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) goal += targets[i].pods * pools_[i].pod_workers;
  return goal;
}

std::uint64_t PoolScaler::ReplicasBeside(const Worker& worker) const {
  std::uint64_t fewest = worker.listed.empty() ? 2 : ~std::uint64_t{0};
  for (const ListedWorker& listed : worker.listed) {
    const auto own = std::ranges::count(worker.listed, listed.stage, &ListedWorker::stage);
    fewest = std::min(fewest, ready_of_stage_[listed.stage] + 1 - static_cast<std::uint64_t>(own));
  }
  return fewest;
}

std::uint64_t PoolScaler::Surplus(const std::vector<PoolTarget>& targets, std::size_t pool) const {
  std::uint64_t wanted = 0;
  if (pool < targets.size()) wanted = targets[pool].pods + (targets[pool].probe ? 1 : 0);
  const std::uint64_t have = members_[pool].size();
  return have > wanted ? have - wanted : 0;
}

void PoolScaler::RemoveUnplaced(const std::vector<PoolTarget>& targets) {
  for (std::size_t pool = members_.size(); pool-- > 0;) {
    std::vector<const Worker*> unplaced;
    for (const Worker* worker : members_[pool]) {
      if (!worker->placed()) unplaced.push_back(worker);
    }
    // The oldest waiting pod stays: it is the first in the autoscaler's queue.
    for (const Worker* worker : unplaced) {
      if (Surplus(targets, pool) == 0) break;
      Remove(*worker);
    }
  }
}

void PoolScaler::AddMissing(const std::vector<PoolTarget>& targets) {
  const auto held = HeldBackUntil(draft_->evidence, PodRole::kWorker, draft_->status());
  if (held) draft_->LookAgain(*held);
  std::uint64_t staying = 0;
  std::uint64_t surplus = 0;
  std::uint64_t largest = 1;
  for (std::size_t pool = 0; pool < members_.size(); ++pool) {
    const std::uint64_t wanted = pool < targets.size() ? targets[pool].pods : 0;
    const bool probes =
        pool < targets.size() && targets[pool].probe && members_[pool].size() > wanted;
    // The newest is the probe.
    for (std::size_t i = probes ? 1 : 0; i < members_[pool].size(); ++i) {
      staying += members_[pool][i]->workers;
      largest = std::max(largest, members_[pool][i]->workers);
    }
    surplus += Surplus(targets, pool);
  }
  // Workers that are replaced in another pool serve until their replacements do, so there may be a
  // few more than wanted.
  const std::uint64_t goal = GoalOf(targets);
  const std::uint64_t most = goal + (surplus > 0 ? std::max(largest, goal / 4) : 0);
  for (std::size_t pool = 0; pool < targets.size(); ++pool) {
    const std::uint64_t have = members_[pool].size();
    const auto& memory = pools_[pool].memory;
    const bool probe_due = !memory.retryTime || draft_->now() >= *memory.retryTime;
    const bool probe = targets[pool].probe && have <= targets[pool].pods && probe_due;
    for (std::uint64_t i = have; i < targets[pool].pods && staying < most; ++i) {
      if (held || !MayCreate(draft_)) return;
      Add(pool);
      staying += pools_[pool].pod_workers;
    }
    if (probe && !held && MayCreate(draft_)) Add(pool);
  }
}

const Worker* PoolScaler::NextToDrain(std::size_t pool) const {
  const Worker* chosen = nullptr;
  std::uint64_t most = 0;
  for (const Worker* worker : members_[pool]) {
    if (!worker->placed()) continue;
    if (!worker->ready) return worker;
    const std::uint64_t beside = ReplicasBeside(*worker);
    if (beside < 2 || beside <= most) continue;
    chosen = worker;
    most = beside;
  }
  return chosen;
}

void PoolScaler::RemovePlaced(const std::vector<PoolTarget>& targets) {
  const std::uint64_t goal = GoalOf(targets);
  for (std::size_t pool = members_.size(); pool-- > 0;) {
    while (Surplus(targets, pool) > 0) {
      const Worker* worker = NextToDrain(pool);
      if (worker == nullptr) {
        if (Count(IsReadyToServe) > goal) ReplaceLastOfStage(pool);
        break;
      }
      if (Count(worker->ready ? IsReadyToServe : IsPlaced) < goal + worker->workers) break;
      if (worker->ready && !worker->listed.empty() &&
          FreshView(draft_->seen, kViewSeconds) != nullptr) {
        Drain(*worker);
      } else {
        Remove(*worker);
      }
    }
  }
}

/// The pod to remove has the last replicas of a stage. A worker of a stage that has others moves
/// into their place.
void PoolScaler::ReplaceLastOfStage(std::size_t pool) {
  const protocol::JobStatus* view = FreshView(draft_->seen, kViewSeconds);
  if (view == nullptr || !view->balance.moving.empty() || !direct_.moves.empty()) return;
  const Worker* last = nullptr;
  for (const Worker* worker : members_[pool]) {
    if (worker->ready && !worker->listed.empty()) last = worker;
  }
  if (last == nullptr) return;
  const auto without = std::ranges::find_if(last->listed, [&](const ListedWorker& listed) {
    const auto own = std::ranges::count(last->listed, listed.stage, &ListedWorker::stage);
    return ready_of_stage_[listed.stage] <= static_cast<std::uint64_t>(own);
  });
  if (without == last->listed.end()) return;
  const ListedWorker* heir = nullptr;
  for (const auto& members : members_) {
    for (const Worker* worker : members) {
      if (!worker->ready || worker == last) continue;
      for (const ListedWorker& listed : worker->listed) {
        if (ready_of_stage_[listed.stage] < 2) continue;
        if (heir == nullptr || ready_of_stage_[listed.stage] > ready_of_stage_[heir->stage]) {
          heir = &listed;
        }
      }
    }
  }
  if (heir == nullptr) return;
  direct_.moves.push_back({heir->worker->id, protocol::StageIndex(without->stage)});
}

void PoolScaler::Drain(const Worker& worker) {
  for (const ListedWorker& listed : worker.listed) {
    direct_.drain.push_back(listed.worker->id.value);
    --ready_of_stage_[listed.stage];
  }
  Forget(worker);
}

}  // namespace swarm::plan
