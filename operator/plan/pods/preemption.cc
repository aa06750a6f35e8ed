#include "operator/plan/pods/preemption.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "operator/plan/pods/nodes.h"

namespace swarm::plan {
namespace {

struct NoticeTaint {
  std::string_view key;
  std::string_view value;  // empty: any
  std::string_view words;
};

constexpr NoticeTaint kNoticeTaints[] = {
    {"aws-node-termination-handler/spot-itn", "", "AWS reclaims the spot instance"},
    {"aws-node-termination-handler/rebalance-recommendation", "",
     "AWS expects to reclaim the spot instance"},
    {"aws-node-termination-handler/scheduled-maintenance", "",
     "AWS has scheduled maintenance of the instance"},
    {"aws-node-termination-handler/asg-lifecycle-termination", "",
     "its Auto Scaling group terminates the instance"},
    {"karpenter.sh/disrupted", "", "Karpenter removes the node"},
    {"karpenter.sh/disruption", "disrupting", "Karpenter removes the node"},
    {"ToBeDeletedByClusterAutoscaler", "", "the cluster autoscaler removes the node"},
    {"cloud.google.com/impending-node-termination", "", "Google Cloud terminates the instance"},
    {"remediator.kubernetes.azure.com/unschedulable", "", "Azure reclaims the instance"},
    {"node.cloudprovider.kubernetes.io/shutdown", "", "the instance is shut down"},
    {"node.kubernetes.io/out-of-service", "", "the node is marked as out of service"},
};

// Azure's node problem detector sets this condition for every scheduled event of the instance. One
// such event is a freeze of some seconds, which is no reason to leave the node.
constexpr std::string_view kAzureCondition = "VMEventScheduled";
constexpr std::string_view kAzureEvents[] = {"Preempt", "Terminate", "Redeploy", "Reboot"};

// An eviction because the pod used more than it may, or because its node ran out of a resource.
bool IsForResources(const ObservedPod& pod) {
  constexpr std::array<std::string_view, 4> kWords = {"low on resource", "exceeds the",
                                                      "exceeded its", "Usage of EmptyDir"};
  const auto says_so = [&](const std::string& text) {
    return std::any_of(kWords.begin(), kWords.end(),
                       [&](std::string_view words) { return text.find(words) != text.npos; });
  };
  return pod.reason == "Evicted" || says_so(pod.message) || says_so(pod.disruption_message);
}

// The evidence in the pod's own record.
std::string PreemptionInPod(const ObservedPod& pod) {
  constexpr std::array<std::string_view, 5> kNodeEnds = {"Shutdown", "NodeShutdown", "Terminated",
                                                         "NodeLost", "Preempting"};
  const bool is_for_resources = pod.disruption == "TerminationByKubelet" && IsForResources(pod);
  if (!pod.disruption.empty() && !is_for_resources) return "disrupted: " + pod.disruption;
  if (std::find(kNodeEnds.begin(), kNodeEnds.end(), pod.reason) != kNodeEnds.end()) {
    return "ended with its node: " + pod.reason;
  }
  if (pod.deleted) return "deleted by another client of the API server";
  return "";
}

// The evidence in the pod's node.
std::string PreemptionInNode(const Observed& observed, const ObservedPod& pod) {
  if (HasLostNode(observed, pod)) {
    return observed.nodes.contains(pod.node)
               ? "its node " + pod.node + " was replaced by a new node of the same name"
               : "its node " + pod.node + " is gone";
  }
  const ObservedNode* node = FindNode(observed, pod);
  const std::string notice = node == nullptr ? "" : NoticeOf(*node);
  return notice.empty() ? "" : "its node " + pod.node + " is going away: " + notice;
}

}  // namespace

std::string NoticeOf(const ObservedNode& node) {
  if (node.deleted) return "the node is being deleted";
  for (const NoticeTaint& notice : kNoticeTaints) {
    for (const Taint& taint : node.taints) {
      if (taint.key != notice.key || (!notice.value.empty() && taint.value != notice.value)) {
        continue;
      }
      return std::string(notice.words) + " (taint " + taint.key + ")";
    }
  }
  const NodeCondition* azure = FindNodeCondition(node, kAzureCondition);
  if (azure != nullptr && azure->status == "True") {
    for (const std::string_view event : kAzureEvents) {
      if (azure->message.find(event) == std::string::npos) continue;
      return "Azure has scheduled a " + std::string(event) + " (condition " + azure->type + ")";
    }
  }
  const NodeCondition* ready = FindNodeCondition(node, "Ready");
  if (ready != nullptr && ready->status != "True" &&
      ready->message.find("node is shutting down") != std::string::npos) {
    return "its kubelet shuts down";
  }
  return "";
}

std::string PreemptionOf(const Observed& observed, const ObservedPod& pod) {
  const std::string in_pod = PreemptionInPod(pod);
  return in_pod.empty() ? PreemptionInNode(observed, pod) : in_pod;
}

}  // namespace swarm::plan
