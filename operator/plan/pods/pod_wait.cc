#include "operator/plan/pods/pod_wait.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace swarm::plan {

bool IsUnschedulable(const ObservedPod& pod) {
  return pod.node.empty() && !pod.gated && !pod.deleted &&
         pod.unscheduled_reason == "Unschedulable";
}

bool WaitsForImage(const ObservedPod& pod) {
  constexpr std::array<std::string_view, 4> kPulls = {"ErrImagePull", "ImagePullBackOff",
                                                      "InvalidImageName", "ErrImageNeverPull"};
  return pod.phase == PodPhase::kPending &&
         std::ranges::find(kPulls, pod.waiting_reason) != kPulls.end();
}

std::string WordsOfWait(const ObservedPod& pod) {
  if (pod.phase != PodPhase::kPending) return "";
  const bool bound = !pod.node.empty();
  const std::string& reason = bound ? pod.waiting_reason : pod.unscheduled_reason;
  const std::string& message = bound ? pod.waiting_message : pod.unscheduled_message;
  return message.empty() ? reason : reason + ": " + message;
}

const ObservedPod* FirstThatWaits(const Observed& observed, bool unbound) {
  const ObservedPod* first = nullptr;
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role != PodRole::kWorker || pod.deleted || (unbound && !pod.node.empty())) continue;
    if (first != nullptr && first->number < pod.number) continue;
    if (!WordsOfWait(pod).empty()) first = &pod;
  }
  return first;
}

}  // namespace swarm::plan
