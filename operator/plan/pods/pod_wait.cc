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

}  // namespace swarm::plan
