#include "operator/plan/pods/nodes.h"

#include <algorithm>

namespace swarm::plan {
namespace {

// A node that is still unknown this long after a pod was bound to it is gone.
constexpr std::chrono::seconds kSettleTime{10};

// Whether the pod was bound to an earlier node of this name.
bool IsAnotherNode(const ObservedNode& node, const ObservedPod& pod) {
  if (!pod.node_uid.empty() && pod.node_uid != node.uid) return true;
  return pod.scheduled && node.created > *pod.scheduled;
}

}  // namespace

const ObservedNode* FindNode(const Observed& observed, const ObservedPod& pod) {
  if (pod.node.empty() || !observed.nodes_known) return nullptr;
  const auto found = observed.nodes.find(pod.node);
  if (found == observed.nodes.end() || IsAnotherNode(found->second, pod)) return nullptr;
  return &found->second;
}

bool HasLostNode(const Observed& observed, const ObservedPod& pod) {
  if (pod.node.empty() || pod.unseen || !observed.nodes_known) return false;
  const auto found = observed.nodes.find(pod.node);
  if (found != observed.nodes.end()) return IsAnotherNode(found->second, pod);
  return observed.now - BoundAt(pod) >= kSettleTime;
}

bool IsReady(const ObservedNode& node) {
  const NodeCondition* ready = FindNodeCondition(node, "Ready");
  return ready == nullptr || ready->status == "True";
}

const NodeCondition* FindNodeCondition(const ObservedNode& node, std::string_view type) {
  const auto found = std::find_if(node.conditions.begin(), node.conditions.end(),
                                  [&](const NodeCondition& each) { return each.type == type; });
  return found == node.conditions.end() ? nullptr : &*found;
}

}  // namespace swarm::plan
