#include "operator/plan/observed_workers.h"

#include <algorithm>
#include <map>
#include <set>

#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

Worker Describe(const Evidence& evidence, std::uint64_t ordinal, const ObservedPod& pod) {
  Worker worker{
      .ordinal = ordinal, .name = pod.name, .pod = &pod, .pool = pod.pool, .workers = pod.workers};
  worker.judgement = JudgePod(evidence, pod);
  const protocol::JobStatus* view = FreshView(evidence.seen(), 2 * kViewSeconds);
  if (view == nullptr) {
    worker.ready = pod.ready;
    return worker;
  }
  worker.listed = evidence.WorkersOf(pod);
  const auto are_all = [&](protocol::WorkerState state) {
    return !worker.listed.empty() &&
           std::ranges::all_of(worker.listed, [state](const ListedWorker& listed) {
             return listed.worker->state == state;
           });
  };
  worker.leaving = are_all(protocol::WorkerState::kLeaving);
  worker.ready = are_all(protocol::WorkerState::kReady);
  return worker;
}

}  // namespace

std::vector<std::pair<PodRole, std::uint64_t>> InDoubt(const Observed& observed) {
  const api::SwarmJobStatus& status = observed.job.status;
  if (observed.job.deleted || !observed.job.job) return {};
  std::set<std::pair<PodRole, std::uint64_t>> expected;
  const bool at_rest = IsTrue(status, api::ConditionType::kSuspended) ||
                       IsTrue(status, api::ConditionType::kSucceeded) ||
                       IsTrue(status, api::ConditionType::kFailed);
  if (status.trainer.term > 0 && !at_rest) {
    expected.emplace(PodRole::kTrainer, status.trainer.term);
  }
  for (const std::uint64_t ordinal : status.openWorkers) {
    expected.emplace(PodRole::kWorker, ordinal);
  }
  for (const ObservedPod& pod : observed.pods) expected.erase({pod.role, pod.number});
  for (const Creation& creation : observed.creations) {
    const bool settles = creation.made && observed.now < creation.time + kSettleTime;
    if (creation.refused || settles) expected.erase({creation.role, creation.number});
  }
  return {expected.begin(), expected.end()};
}

std::uint64_t PodSize(const Observed& observed, const std::string& pool) {
  std::uint64_t most = 1;
  for (const auto& [name, size] : observed.pod_sizes) {
    if (name == pool) return size;
    most = std::max(most, size);
  }
  return pool.empty() ? most : 1;
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

ObservedWorkers ObserveWorkers(const Evidence& evidence) {
  const Observed& observed = evidence.seen();
  ObservedWorkers workers;
  std::map<std::uint64_t, const ObservedPod*> pods;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role == PodRole::kWorker) pods.emplace(pod.number, &pod);
  }
  for (const std::uint64_t ordinal : observed.job.status.openWorkers) {
    if (const auto pod = pods.find(ordinal); pod != pods.end()) {
      workers.open.push_back(Describe(evidence, ordinal, *pod->second));
      continue;
    }
    const Creation* creation = FindCreation(observed, PodRole::kWorker, ordinal);
    if (creation != nullptr && creation->refused) {
      workers.refused.push_back(ordinal);
    } else if (creation != nullptr) {
      workers.open.push_back({.ordinal = ordinal,
                              .pool = creation->pool,
                              .workers = PodSize(observed, creation->pool),
                              .made = creation->made});
    } else if (const auto end = GivenUpAt(observed, PodRole::kWorker, ordinal);
               end && observed.now < *end) {
      workers.look_again = std::min(workers.look_again.value_or(*end), *end);
      workers.open.push_back({.ordinal = ordinal, .workers = PodSize(observed, "")});
    } else {
      workers.vanished.push_back(ordinal);
    }
  }
  return workers;
}

}  // namespace swarm::plan
