#include "operator/objects/trim.h"

#include <nlohmann/json.hpp>

namespace swarm::objects {
namespace {

using nlohmann::json;

// Members that are kept: 0 as they are, an object in part, an array each of its items.
const json kPodShape = json::parse(R"({
  "metadata": {
    "name": 0, "namespace": 0, "uid": 0, "resourceVersion": 0,
    "creationTimestamp": 0, "deletionTimestamp": 0,
    "labels": {"swarmjob.dev/job": 0, "swarmjob.dev/role": 0, "swarmjob.dev/pool": 0,
               "swarmjob.dev/ordinal": 0, "swarmjob.dev/term": 0},
    "ownerReferences": [{"uid": 0, "controller": 0}]},
  "spec": {"nodeName": 0, "schedulingGates": 0},
  "status": {
    "phase": 0, "reason": 0, "message": 0, "podIP": 0,
    "conditions": [{"type": 0, "status": 0, "lastTransitionTime": 0, "reason": 0, "message": 0}],
    "containerStatuses": [{"name": 0, "state": {
      "waiting": {"reason": 0, "message": 0},
      "terminated": {"exitCode": 0, "signal": 0, "reason": 0, "message": 0, "finishedAt": 0}}}]}
})");
const json kNodeShape = json::parse(R"({
  "metadata": {"name": 0, "uid": 0, "resourceVersion": 0, "creationTimestamp": 0, "deletionTimestamp": 0},
  "spec": {"taints": 0},
  "status": {"conditions": [{"type": 0, "status": 0, "reason": 0, "message": 0}]}
})");

json Cut(json& value, const json& shape) {
  if (shape.is_object() && value.is_object()) {
    json kept = json::object();
    for (const auto& [key, inner] : shape.items()) {
      if (const auto member = value.find(key); member != value.end()) {
        kept[key] = Cut(*member, inner);
      }
    }
    return kept;
  }
  if (shape.is_array() && value.is_array()) {
    for (json& item : value) item = Cut(item, shape[0]);
  }
  return std::move(value);
}

bool IsRead(const json& condition) {
  const auto type = condition.is_object() ? condition.find("type") : condition.end();
  return type != condition.end() &&
         (*type == "Ready" || *type == "PodScheduled" || *type == "DisruptionTarget");
}

}  // namespace

void TrimPod(json& pod) {
  pod = Cut(pod, kPodShape);
  if (!pod.is_object() || !pod.contains("status") || !pod["status"].is_object()) return;
  const auto conditions = pod["status"].find("conditions");
  if (conditions == pod["status"].end() || !conditions->is_array()) return;
  json kept = json::array();
  for (json& condition : *conditions) {
    if (IsRead(condition)) kept.push_back(std::move(condition));
  }
  *conditions = std::move(kept);
}

void TrimNode(json& node) { node = Cut(node, kNodeShape); }

}  // namespace swarm::objects
