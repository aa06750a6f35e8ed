#include "operator/plan/money/tenures.h"

#include <algorithm>
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

/// A machine is one worker, or one for each of its devices.
bool Lists(const protocol::JobStatus& view, const std::string& machine) {
  constexpr std::uint64_t kWorkersMax = 1000;  // more than any has
  const auto is_of = [&](const protocol::WorkerId& id) {
    return id.value == machine || names::IsWorkerOf(machine, kWorkersMax, id.value);
  };
  return std::ranges::any_of(view.spares, is_of) ||
         std::ranges::any_of(view.stages, [&](const protocol::StageStatus& stage) {
           return std::ranges::any_of(stage.workers, is_of, &protocol::StageStatus::Worker::id);
         });
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
    Tenure tenure{.pool = pod.pool,
                  .workers = pod.workers,
                  .from = pod.scheduled.value_or(pod.created),
                  .until = {}};
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
  const protocol::JobStatus* view = FreshView(seen, kViewSeconds);
  for (const api::MachineStatus& machine : seen.job.status.machines) {
    const std::string holder = HolderOf(machine);
    const std::string worker = names::PodName(seen.job.name, PodRole::kWorker, machine.ordinal);
    const bool at_work =
        view != nullptr ? Lists(*view, worker) : before->contains(holder) && HasTrainer(seen);
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
