#include "operator/plan/pods/gone.h"

#include <set>

#include "operator/plan/trainer_view.h"

namespace swarm::plan {

protocol::Retired GoneWorkers(const ObservedJob& job, const std::vector<ObservedPod>& pods) {
  const std::uint64_t reserved = job.status.nextWorkerOrdinal;
  std::set<std::uint64_t> there(job.status.openWorkers.begin(), job.status.openWorkers.end());
  for (const ObservedPod& pod : pods) {
    const bool ended = pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
    if (pod.role == PodRole::kWorker && pod.number < reserved && !ended) there.insert(pod.number);
  }
  for (const api::MachineStatus& machine : job.status.machines) there.insert(machine.ordinal);
  return {names::WorkerPrefix(job.name), reserved, {there.begin(), there.end()}};
}

void RetireWorkers(Draft* draft) {
  const protocol::JobStatus* view = FreshView(draft->seen, kViewSeconds);
  if (view == nullptr || draft->finished()) return;
  protocol::Retired gone = GoneWorkers(draft->seen.job, draft->seen.pods);
  if (gone.count() <= view->retired) return;
  draft->plan.actions.push_back(
      DirectTrainer{.drain = {}, .moves = {}, .retired = std::move(gone)});
}

}  // namespace swarm::plan
