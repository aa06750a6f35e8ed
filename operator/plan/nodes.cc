#include "operator/plan/nodes.h"

#include <algorithm>
#include <string_view>

#include "operator/plan/evidence.h"

namespace swarm::plan {
namespace {

struct NoticeTaint {
  std::string_view key;
  std::string_view value;  // empty: any
  std::string_view words;
};

constexpr NoticeTaint kNoticeTaints[] = {
    {"aws-node-termination-handler/spot-itn", "", "AWS reclaims the spot instance"},
    {"aws-node-termination-handler/rebalance-recommendation", "", "AWS expects to reclaim it"},
    {"aws-node-termination-handler/scheduled-maintenance", "", "AWS maintains the instance"},
    {"aws-node-termination-handler/asg-lifecycle-termination", "", "its scaling group ends it"},
    {"karpenter.sh/disrupted", "", "Karpenter removes it"},
    {"karpenter.sh/disruption", "disrupting", "Karpenter removes it"},
    {"ToBeDeletedByClusterAutoscaler", "", "the cluster autoscaler removes it"},
    {"cloud.google.com/impending-node-termination", "", "Google Cloud ends the instance"},
    {"remediator.kubernetes.azure.com/unschedulable", "", "Azure takes the instance"},
    {"node.cloudprovider.kubernetes.io/shutdown", "", "the instance is shut down"},
    {"node.kubernetes.io/out-of-service", "", "somebody has declared it dead"},
};

// Azure's node problem detector sets it for every scheduled event of the instance. A freeze of some
// seconds is one too, and is nothing to leave for.
constexpr std::string_view kAzureCondition = "VMEventScheduled";
constexpr std::string_view kAzureEvents[] = {"Preempt", "Terminate", "Redeploy", "Reboot"};

const NodeCondition* FindNodeCondition(const ObservedNode& node, std::string_view type) {
  const auto it = std::find_if(node.conditions.begin(), node.conditions.end(),
                               [&](const NodeCondition& c) { return c.type == type; });
  return it == node.conditions.end() ? nullptr : &*it;
}

}  // namespace

bool IsReady(const ObservedNode& node) {
  const NodeCondition* ready = FindNodeCondition(node, "Ready");
  return ready == nullptr || ready->status == "True";
}

bool IsAnotherNode(const ObservedNode& node, const ObservedPod& pod) {
  if (!pod.node_uid.empty() && pod.node_uid != node.uid) return true;
  return pod.scheduled && node.created > *pod.scheduled;
}

std::string NoticeOf(const ObservedNode& node) {
  if (node.deleted) return "it is being deleted";
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

}  // namespace swarm::plan
