#include "operator/plan/money/tenures.h"

#include <utility>

namespace swarm::plan {

std::vector<Tenure> Tenures::Look(const std::vector<ObservedPod>& pods, WallTime now) {
  std::map<std::string, Tenure> before = std::exchange(held_, {});
  for (const ObservedPod& pod : pods) {
    if (pod.role != PodRole::kWorker || pod.node.empty()) continue;
    // A cache that was behind may have let the pod seem gone.
    if (const auto gone = gone_.find(pod.uid); gone != gone_.end()) {
      gone->second.until.reset();
      before.insert(gone_.extract(gone));
    }
    const auto known = before.find(pod.uid);
    Tenure tenure{.pool = pod.pool,
                  .workers = pod.workers,
                  .from = pod.scheduled.value_or(pod.created),
                  .until = {}};
    const bool ended =
        pod.end || pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
    if (pod.end && pod.end->time) {
      tenure.until = pod.end->time;
    } else if (ended && known == before.end()) {
      continue;
    } else if (ended) {
      tenure.until = known->second.until.value_or(now);
    }
    held_.emplace(pod.uid, std::move(tenure));
  }
  for (auto& [uid, tenure] : before) {
    if (held_.contains(uid)) continue;
    if (!tenure.until) tenure.until = now;
    gone_.emplace(uid, std::move(tenure));
  }
  std::vector<Tenure> all;
  for (const auto* map : {&held_, &gone_}) {
    for (const auto& [uid, tenure] : *map) all.push_back(tenure);
  }
  return all;
}

}  // namespace swarm::plan
