#include "operator/plan/cleanup.h"

#include <algorithm>

#include "operator/plan/pods/nodes.h"
#include "operator/plan/pods/pod_ends.h"

namespace swarm::plan {
namespace {

/// How many ended pods are kept for their logs: the newest ones.
constexpr std::size_t kKeptMax = 8;

bool IsWanted(const ObservedPod& pod, Draft* draft) {
  const api::SwarmJobStatus& status = draft->status();
  if (pod.role == PodRole::kWorker) {
    return std::binary_search(status.openWorkers.begin(), status.openWorkers.end(), pod.number);
  }
  if (pod.number != status.trainer.term) return false;
  // The trainer's log tells how the job finished.
  return !draft->finished() || HasEnded(pod);
}

void Delete(const ObservedPod& pod, Draft* draft) {
  if (HasLostNode(draft->seen, pod)) {
    draft->plan.actions.push_back(DeletePod{pod.name, pod.uid, 0});
  } else if (!pod.deleted) {
    draft->plan.actions.push_back(DeletePod{pod.name, pod.uid, std::nullopt});
  }
}

}  // namespace

void CleanUpPods(Draft* draft) {
  std::vector<std::pair<WallTime, const ObservedPod*>> kept;
  const bool failed = api::IsTrue(draft->status(), api::ConditionType::kFailed);
  for (const ObservedPod& pod : draft->seen.pods) {
    if (pod.unseen || IsWanted(pod, draft)) continue;
    const auto until = pod.deleted ? std::nullopt : KeptUntil(draft->evidence, pod);
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
