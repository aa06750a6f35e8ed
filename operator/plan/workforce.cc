#include "operator/plan/workforce.h"

#include <algorithm>
#include <map>

namespace swarm::plan {
namespace {

/// So long a pod that somebody else has reserved may take to be seen.
constexpr std::chrono::seconds kSettleTime{10};

Worker Describe(const Observed& observed, std::uint64_t ordinal, const ObservedPod& pod) {
  Worker worker{.ordinal = ordinal, .name = pod.name, .pod = &pod, .pool = pod.pool};
  worker.judgement = JudgePod(observed, pod);
  const protocol::JobStatus* view = FreshView(observed, 2 * kViewSeconds);
  if (view == nullptr) {
    worker.ready = pod.ready;
    return worker;
  }
  for (const protocol::StageStatus& stage : view->stages) {
    for (const protocol::StageStatus::Worker& known : stage.workers) {
      if (known.id.value != pod.name) continue;
      worker.stage = stage.stage.value;
      worker.leaving = known.state == protocol::WorkerState::kLeaving;
      worker.ready = known.state == protocol::WorkerState::kReady;
    }
  }
  return worker;
}

}  // namespace

std::uint64_t Workforce::staying() const {
  return static_cast<std::uint64_t>(
      std::count_if(workers.begin(), workers.end(), [](const Worker& w) { return w.stays(); }));
}

const Creation* FindCreation(const Observed& observed, PodRole role, std::uint64_t number) {
  const auto it = std::find_if(
      observed.creations.begin(), observed.creations.end(),
      [&](const Creation& each) { return each.role == role && each.number == number; });
  return it == observed.creations.end() ? nullptr : &*it;
}

std::optional<WallTime> GivenUpAt(const Observed& observed, PodRole role, std::uint64_t number) {
  for (const Reservation& each : observed.unseen) {
    if (each.role == role && each.number == number) return each.known_since + kSettleTime;
  }
  return std::nullopt;
}

Workforce Gather(const Observed& observed) {
  Workforce force;
  std::map<std::uint64_t, const ObservedPod*> pods;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role == PodRole::kWorker) pods.emplace(pod.number, &pod);
  }
  for (const std::uint64_t ordinal : observed.job.status.openWorkers) {
    if (const auto pod = pods.extract(ordinal)) {
      force.workers.push_back(Describe(observed, ordinal, *pod.mapped()));
      continue;
    }
    const Creation* creation = FindCreation(observed, PodRole::kWorker, ordinal);
    if (creation != nullptr && creation->refused) {
      force.refused.push_back(ordinal);
    } else if (creation != nullptr) {
      force.workers.push_back({.ordinal = ordinal, .pool = creation->pool});
    } else if (const auto end = GivenUpAt(observed, PodRole::kWorker, ordinal);
               end && observed.now < *end) {
      force.look_again = std::min(force.look_again.value_or(*end), *end);
      force.workers.push_back({.ordinal = ordinal});
    } else {
      force.vanished.push_back(ordinal);
    }
  }
  for (const auto& [ordinal, pod] : pods) force.closed.push_back(pod);
  return force;
}

}  // namespace swarm::plan
