#include "operator/plan/sweep.h"

#include <algorithm>

#include "operator/plan/ends.h"
#include "operator/plan/nodes.h"

namespace swarm::plan {
namespace {

/// The newest of those that are kept for their logs.
constexpr std::size_t kKeptMax = 8;

bool HasEnded(const ObservedPod& pod) {
  return pod.end || pod.phase == PodPhase::kFailed || pod.phase == PodPhase::kSucceeded;
}

bool ShallBe(const ObservedPod& pod, Draft* draft) {
  const api::SwarmJobStatus& status = draft->status();
  if (pod.role == PodRole::kWorker) {
    return std::binary_search(status.openWorkers.begin(), status.openWorkers.end(), pod.number);
  }
  if (pod.number != status.trainer.term) return false;
  // The last word of a job stands in its trainer's log.
  return !draft->finished() || HasEnded(pod);
}

/// Whether there is no kubelet any more that could confirm the end of the pod.
bool IsOrphan(const Observed& observed, const ObservedPod& pod) {
  if (pod.node.empty() || !observed.nodes_known) return false;
  const auto node = observed.nodes.find(pod.node);
  if (node != observed.nodes.end()) return IsAnotherNode(node->second, pod);
  const WallTime bound = pod.scheduled.value_or(pod.created);
  return observed.now - bound >= std::chrono::seconds(kSettledNodeSeconds);
}

void Delete(const ObservedPod& pod, Draft* draft) {
  if (IsOrphan(draft->seen, pod)) {
    draft->plan.actions.push_back(DeletePod{pod.name, pod.uid, 0});
  } else if (!pod.deleted) {
    draft->plan.actions.push_back(DeletePod{pod.name, pod.uid, std::nullopt});
  }
}

}  // namespace

void Sweep(Draft* draft) {
  std::vector<std::pair<WallTime, const ObservedPod*>> kept;
  const bool failed = api::IsTrue(draft->status(), api::kFailed);
  for (const ObservedPod& pod : draft->seen.pods) {
    if (ShallBe(pod, draft)) continue;
    const auto until = pod.deleted ? std::nullopt : KeptUntil(draft->seen, pod);
    if (until && (draft->finished() ? failed : *until > draft->now())) {
      kept.emplace_back(*until, &pod);
    } else {
      Delete(pod, draft);
    }
  }
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, b.second->name) < std::pair(a.first, a.second->name);
  });
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (i >= kKeptMax) {
      Delete(*kept[i].second, draft);
    } else if (!draft->finished()) {
      draft->LookAgain(kept[i].first);
    }
  }
}

}  // namespace swarm::plan
