#include "operator/plan/assignment.h"

#include <algorithm>
#include <chrono>

#include "operator/plan/trainer_view.h"
#include "worker/protocol/balance/balance.h"

namespace swarm::plan {
namespace {

using protocol::BalanceOrder;
using protocol::StageLoad;
using protocol::WorkerState;

/// Measured rates differ by this much by chance, which is no reason to move a worker.
constexpr double kMinGain = 0.15;

/// After a worker joined or moved, rates need this long to settle. Without the pause, workers of a
/// busy machine move back and forth.
constexpr std::chrono::seconds kAfterMove{120};
constexpr std::chrono::seconds kAfterJoin{60};

bool IsGoing(WorkerState state) {
  return state == WorkerState::kLeaving || state == WorkerState::kMoving;
}

/// The orders to the trainer that the draft has already.
DirectTrainer DirectOf(const Draft& draft) {
  for (const Action& action : draft.plan.actions) {
    if (const auto* direct = std::get_if<DirectTrainer>(&action)) return *direct;
  }
  return {};
}

bool IsOpen(const Draft& draft, const std::string& id) {
  const ObservedPod* pod = draft.evidence.PodOf(id);
  const auto& open = draft.plan.status.openWorkers;
  return pod != nullptr && std::binary_search(open.begin(), open.end(), pod->number);
}

std::vector<StageLoad> LoadsOf(const protocol::JobStatus& view, const Draft& draft) {
  const std::vector<std::string> drained = DirectOf(draft).drain;
  std::vector<StageLoad> loads;
  for (const protocol::StageStatus& stage : view.stages) {
    StageLoad load{.cost = stage.cost, .replicas = {}};
    for (const auto& worker : stage.workers) {
      if (IsGoing(worker.state) || !IsOpen(draft, worker.id.value) ||
          std::find(drained.begin(), drained.end(), worker.id.value) != drained.end()) {
        continue;
      }
      load.replicas.push_back({.worker = worker.id,
                               .rate = worker.microbatches_per_second,
                               .ready = worker.state == WorkerState::kReady,
                               .region = worker.region});
    }
    loads.push_back(std::move(load));
  }
  return loads;
}

/// Whether a pod has a node and the trainer lists none of its workers yet, or a worker is a spare.
bool IsWorkerComing(const Draft& draft, const protocol::JobStatus& view) {
  const auto& open = draft.plan.status.openWorkers;
  return !view.spares.empty() ||
         std::any_of(draft.seen.pods.begin(), draft.seen.pods.end(), [&](const ObservedPod& pod) {
           return pod.role == PodRole::kWorker && !pod.node.empty() && !pod.end &&
                  std::binary_search(open.begin(), open.end(), pod.number) &&
                  draft.evidence.WorkersOf(pod).empty();
         });
}

/// Whether no worker has joined or moved recently, so that the rates have settled.
bool IsSettled(const Draft& draft) {
  const WallTime now = draft.now();
  if (draft.seen.moved && now - *draft.seen.moved < kAfterMove) return false;
  return std::none_of(draft.seen.pods.begin(), draft.seen.pods.end(), [&](const ObservedPod& pod) {
    return pod.role == PodRole::kWorker && pod.scheduled && now - *pod.scheduled < kAfterJoin;
  });
}

std::size_t ReadyAt(const StageLoad& stage) {
  return static_cast<std::size_t>(std::count_if(stage.replicas.begin(), stage.replicas.end(),
                                                [](const auto& r) { return r.ready; }));
}

}  // namespace

void DecideAssignment(Draft* draft) {
  const protocol::JobStatus* view = FreshView(draft->seen, kViewSeconds);
  if (view == nullptr || view->state != protocol::JobState::kTraining ||
      !view->balance.moving.empty())
    return;
  if (!DirectOf(*draft).moves.empty()) return;
  const std::vector<StageLoad> loads = LoadsOf(*view, *draft);
  if (loads.size() < 2) return;
  const protocol::BalanceModel model{
      .state_load_seconds = view->balance.state_load_seconds,
      .changes_per_worker_second = view->balance.changes_per_worker_second,
      .min_gain = kMinGain,
      .regions = {.survive_loss = draft->job.spec.pipeline.surviveRegionLoss}};
  const std::vector<BalanceOrder> orders =
      IsWorkerComing(*draft, *view) || !IsSettled(*draft)
          ? protocol::FillEmptied(loads, model.regions)
          : protocol::Balance(protocol::BalancePolicy::kEvent, protocol::BalanceTrigger::kChange,
                              loads, model);
  for (const BalanceOrder& order : orders) {
    if (ReadyAt(loads[order.from.value]) < 2) continue;
    draft->plan.actions.push_back(DirectTrainer{.drain = {}, .moves = {{order.worker, order.to}}});
    draft->Tell(api::Reason::kWorkerMoved,
                order.worker.value + " moves from stage " + std::to_string(order.from.value) +
                    " to stage " + std::to_string(order.to.value) + ": " + order.reason);
    return;
  }
}

}  // namespace swarm::plan
