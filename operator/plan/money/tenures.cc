#include "operator/plan/money/tenures.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

/// No UID is like it.
std::string HolderOf(const api::MachineStatus& machine) {
  return "machine " + std::to_string(machine.ordinal);
}

/// Whether a trainer may be at work, though it says nothing.
bool HasTrainer(const Observed& seen) {
  return std::ranges::any_of(seen.pods, [](const ObservedPod& pod) {
    return pod.role == PodRole::kTrainer && !HasEnded(pod);
  });
}

/// What the trainer lists: workers, and of those that are one of several, what has them.
std::unordered_set<std::string_view> ListedIn(const protocol::JobStatus& view) {
  std::unordered_set<std::string_view> listed;
  const auto add = [&listed](const protocol::WorkerId& worker) {
    listed.insert(worker.value);
    if (const auto holder = names::PodOfSeveral(worker.value)) listed.insert(*holder);
  };
  std::ranges::for_each(view.spares, add);
  for (const protocol::StageStatus& stage : view.stages) {
    std::ranges::for_each(stage.workers, add, &protocol::StageStatus::Worker::id);
  }
  return listed;
}

}  // namespace

Tenures::ByHolder::const_iterator Tenures::Find(const std::string& holder, ByHolder* before) {
  // A cache that was behind, or a break in a connection, may have let it seem gone.
  if (const auto gone = gone_.find(holder); gone != gone_.end()) {
    gone->second.until.reset();
    before->insert(gone_.extract(gone));
  }
  return before->find(holder);
}

void Tenures::LookAtPods(const Observed& seen, ByHolder* before) {
  for (const ObservedPod& pod : seen.pods) {
    if (pod.role != PodRole::kWorker || pod.node.empty()) continue;
    const auto known = Find(pod.uid, before);
    Tenure tenure{.pool = pod.pool, .workers = pod.workers, .from = BoundAt(pod), .until = {}};
    const bool ended = HasEnded(pod);
    if (pod.end && pod.end->time) {
      tenure.until = pod.end->time;
    } else if (ended && known == before->end()) {
      continue;
    } else if (ended) {
      tenure.until = known->second.until.value_or(seen.now);
    }
    held_.emplace(pod.uid, std::move(tenure));
  }
}

void Tenures::LookAtMachines(const Observed& seen, ByHolder* before) {
  if (seen.job.status.machines.empty()) return;
  const protocol::JobStatus* view = FreshView(seen, kViewSeconds);
  std::unordered_set<std::string_view> listed;
  if (view != nullptr) listed = ListedIn(*view);
  for (const api::MachineStatus& machine : seen.job.status.machines) {
    const std::string holder = HolderOf(machine);
    const std::string worker = names::PodName(seen.job.name, PodRole::kWorker, machine.ordinal);
    const bool at_work =
        view != nullptr ? listed.contains(worker) : before->contains(holder) && HasTrainer(seen);
    if (!at_work) continue;
    const auto known = Find(holder, before);
    const WallTime begun = began_ ? seen.now : seen.job.status.cost.countedTime.value_or(seen.now);
    held_.emplace(holder,
                  known != before->end()
                      ? known->second
                      : Tenure{.pool = machine.pool, .workers = 1, .from = begun, .until = {}});
  }
}

std::vector<Tenure> Tenures::Look(const Observed& seen) {
  ByHolder before = std::exchange(held_, {});
  LookAtPods(seen, &before);
  LookAtMachines(seen, &before);
  began_ = began_ || FreshView(seen, kViewSeconds) != nullptr;
  for (auto& [holder, tenure] : before) {
    if (held_.contains(holder)) continue;
    if (!tenure.until) tenure.until = seen.now;
    gone_.emplace(holder, std::move(tenure));
  }
  std::vector<Tenure> all;
  for (const auto* map : {&held_, &gone_}) {
    for (const auto& [holder, tenure] : *map) all.push_back(tenure);
  }
  return all;
}

}  // namespace swarm::plan
