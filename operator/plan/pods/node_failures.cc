#include "operator/plan/pods/node_failures.h"

#include <algorithm>

namespace swarm::plan {
namespace {

constexpr std::chrono::hours kNodeMemory{1};
/// Fewer failures may be the program's own.
constexpr std::uint64_t kRepeatedFailures = 3;

/// Unknown nodes, also those that the operator may not read, count as named by their host.
std::string HostnameOf(const Observed& observed, const std::string& node) {
  const auto found = observed.nodes.find(node);
  return found == observed.nodes.end() || found->second.hostname.empty() ? node
                                                                         : found->second.hostname;
}

api::NodeStatus& FindOrAdd(const std::string& name, Draft* draft) {
  std::vector<api::NodeStatus>& nodes = draft->status().nodes;
  const auto found = std::ranges::find(nodes, name, &api::NodeStatus::name);
  if (found != nodes.end()) return *found;
  if (nodes.size() >= api::kNodeStatusMax) {
    nodes.erase(std::ranges::min_element(nodes, {}, &api::NodeStatus::lastFailureTime));
  }
  return nodes.emplace_back(
      api::NodeStatus{.name = name, .hostname = HostnameOf(draft->seen, name)});
}

}  // namespace

bool IsAvoided(const api::SwarmJobStatus& status, const std::string& node) {
  return std::ranges::any_of(status.nodes, [&node](const api::NodeStatus& each) {
    return each.name == node && each.avoided;
  });
}

void CountForNode(const std::string& pod, const Judgement& end, Draft* draft) {
  if (end.node.empty()) return;
  api::NodeStatus& node = FindOrAdd(end.node, draft);
  ++node.failures;
  node.lastFailureTime = draft->now();
  if (node.avoided || (!end.node_unfit && node.failures < kRepeatedFailures)) return;
  node.avoided = true;
  draft->Warn(api::Reason::kNodeAvoided, "new pods avoid node " + node.name +
                                             " until an hour after its last failure; so far " +
                                             std::to_string(node.failures) + ", the last: " + pod +
                                             ": " + end.words);
}

bool IsFaultOfAvoidedNode(PodRole role, const Judgement& end, const Draft& draft) {
  const api::SwarmJobStatus& status = draft.plan.status;
  return IsAvoided(status, end.node) &&
         std::ranges::any_of(draft.seen.pods, [&](const ObservedPod& pod) {
           return pod.role == role && pod.ready && !pod.end && !pod.deleted && !pod.node.empty() &&
                  !IsAvoided(status, pod.node);
         });
}

void ForgetNodes(Draft* draft) {
  std::vector<api::NodeStatus>& nodes = draft->status().nodes;
  std::erase_if(nodes, [&](const api::NodeStatus& node) {
    return draft->now() - node.lastFailureTime >= kNodeMemory;
  });
  for (const api::NodeStatus& node : nodes) draft->LookAgain(node.lastFailureTime + kNodeMemory);
}

}  // namespace swarm::plan
