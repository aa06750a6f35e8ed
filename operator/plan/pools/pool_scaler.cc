#include "operator/plan/pools/pool_scaler.h"

#include <algorithm>

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

std::uint64_t GoalOf(const std::vector<PoolTarget>& targets) {
  std::uint64_t goal = 0;
  for (const PoolTarget& target : targets) goal += target.workers;
  return goal;
}

}  // namespace

PoolScaler::PoolScaler(const std::vector<Worker>& workers, Draft* draft) : draft_(draft) {
  const api::SwarmJobStatus& status = draft->status();
  for (const api::Pool& spec : draft->job.spec.workers.pools) {
    PoolView view{.spec = &spec, .load = {}, .memory = {.name = spec.name}};
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
      ++unseen_;
      continue;
    }
    std::size_t pool = 0;
    while (pool < pools_.size() && pools_[pool].spec->name != worker.pool) ++pool;
    members_[pool].push_back(&worker);
    if (pool < pools_.size()) Tally(worker, &pools_[pool].load);
    if (worker.ready && worker.stage && *worker.stage < ready_of_stage_.size()) {
      ++ready_of_stage_[*worker.stage];
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
    for (const Worker* worker : members) count += counts(*worker) ? 1 : 0;
  }
  return count;
}

std::uint64_t PoolScaler::Surplus(const std::vector<PoolTarget>& targets, std::size_t pool) const {
  std::uint64_t wanted = 0;
  if (pool < targets.size()) wanted = targets[pool].workers + (targets[pool].probe ? 1 : 0);
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
  const auto held = HeldBackUntil(draft_->seen, PodRole::kWorker, draft_->status());
  if (held) draft_->LookAgain(*held);
  std::uint64_t staying = 0;
  std::uint64_t surplus = 0;
  for (std::size_t pool = 0; pool < members_.size(); ++pool) {
    const std::uint64_t wanted = pool < targets.size() ? targets[pool].workers : 0;
    const bool probes =
        pool < targets.size() && targets[pool].probe && members_[pool].size() > wanted;
    staying += members_[pool].size() - (probes ? 1 : 0);
    surplus += Surplus(targets, pool);
  }
  // Workers that are replaced in another pool serve until their replacements do, so there may be a
  // few more than wanted.
  const std::uint64_t goal = GoalOf(targets);
  const std::uint64_t most = goal + (surplus > 0 ? std::max<std::uint64_t>(1, goal / 4) : 0);
  for (std::size_t pool = 0; pool < targets.size(); ++pool) {
    const std::uint64_t have = members_[pool].size();
    const auto& memory = pools_[pool].memory;
    const bool probe_due = !memory.retryTime || draft_->now() >= *memory.retryTime;
    const bool probe = targets[pool].probe && have <= targets[pool].workers && probe_due;
    for (std::uint64_t i = have; i < targets[pool].workers && staying < most; ++i, ++staying) {
      if (held || !MayCreate(draft_)) return;
      Add(pool);
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
    const std::uint64_t beside = worker->stage ? ready_of_stage_[*worker->stage] : 2;
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
      if (Count(worker->ready ? IsReadyToServe : IsPlaced) <= goal) break;
      if (worker->ready && worker->stage && FreshView(draft_->seen, kViewSeconds) != nullptr) {
        Drain(*worker);
      } else {
        Remove(*worker);
      }
    }
  }
}

/// The worker to remove is the last of its stage. A worker of a stage that has others moves into
/// its place.
void PoolScaler::ReplaceLastOfStage(std::size_t pool) {
  const protocol::JobStatus* view = FreshView(draft_->seen, kViewSeconds);
  if (view == nullptr || !view->balance.moving.empty() || !direct_.moves.empty()) return;
  const Worker* last = nullptr;
  for (const Worker* worker : members_[pool]) {
    if (worker->ready && worker->stage) last = worker;
  }
  if (last == nullptr) return;
  const Worker* heir = nullptr;
  for (const auto& members : members_) {
    for (const Worker* worker : members) {
      if (!worker->ready || !worker->stage || ready_of_stage_[*worker->stage] < 2) continue;
      if (heir == nullptr || ready_of_stage_[*worker->stage] > ready_of_stage_[*heir->stage]) {
        heir = worker;
      }
    }
  }
  if (heir == nullptr) return;
  direct_.moves.push_back({protocol::WorkerId(heir->name), protocol::StageIndex(*last->stage)});
}

void PoolScaler::Drain(const Worker& worker) {
  direct_.drain.push_back(worker.name);
  --ready_of_stage_[*worker.stage];
  Forget(worker);
}

}  // namespace swarm::plan
