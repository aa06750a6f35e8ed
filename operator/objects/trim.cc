#include "operator/objects/trim.h"

#include <nlohmann/json.hpp>

#include "operator/names/names.h"
#include "operator/objects/build.h"
#include "operator/objects/read.h"

namespace swarm::objects {
namespace {

using nlohmann::json;

// The members that are kept. 0: the whole member. An object: the named members of it. An array: the
// same for each item.
const json kPodShape = [] {
  json shape = json::parse(R"({
  "metadata": {
    "name": 0, "namespace": 0, "uid": 0, "resourceVersion": 0,
    "creationTimestamp": 0, "deletionTimestamp": 0,
    "ownerReferences": [{"uid": 0, "controller": 0}]},
  "spec": {"nodeName": 0, "schedulingGates": 0},
  "status": {
    "phase": 0, "reason": 0, "message": 0, "podIP": 0,
    "conditions": [{"type": 0, "status": 0, "lastTransitionTime": 0, "reason": 0, "message": 0}],
    "containerStatuses": [{"name": 0, "state": {
      "waiting": {"reason": 0, "message": 0},
      "terminated": {"exitCode": 0, "signal": 0, "reason": 0, "message": 0, "finishedAt": 0}}}]}
})");
  for (const char* label :
       {names::kJobLabel, names::kRoleLabel, names::kPoolLabel, names::kOrdinalLabel,
        names::kTermLabel, names::kWorkersLabel, names::kJobUidLabel, names::kIdentityLabel}) {
    shape["metadata"]["labels"][label] = 0;
  }
  shape["metadata"]["annotations"][names::kMadeOfAnnotation] = 0;
  return shape;
}();
const json kNodeShape = [] {
  json shape = json::parse(R"({
  "metadata": {"name": 0, "uid": 0, "resourceVersion": 0, "creationTimestamp": 0, "deletionTimestamp": 0},
  "spec": {"taints": 0},
  "status": {"conditions": [{"type": 0, "status": 0, "reason": 0, "message": 0}]}
})");
  shape["metadata"]["labels"][names::kHostnameLabel] = 0;
  return shape;
}();

const json kWorkloadShape = [] {
  json shape = json::parse(R"({
  "metadata": {
    "name": 0, "namespace": 0, "uid": 0, "resourceVersion": 0, "deletionTimestamp": 0,
    "ownerReferences": [{"uid": 0, "controller": 0}]},
  "spec": {"active": 0, "queueName": 0, "podSets": [{"name": 0, "count": 0}]},
  "status": {"conditions": [{"type": 0, "status": 0, "reason": 0, "message": 0}]}
})");
  shape["metadata"]["labels"][names::kJobLabel] = 0;
  shape["metadata"]["annotations"][names::kAppliedAnnotation] = 0;
  return shape;
}();

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
  const bool shares = SharesIdentities(pod);
  pod = Cut(pod, kPodShape);
  if (shares) {
    pod["spec"]["volumes"] = {
        {{"name", kIdentityVolume},
         {"secret",
          {{"secretName",
            names::SharedIdentitiesName(pod["metadata"]["labels"][names::kJobLabel])}}}}};
  }
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

void TrimWorkload(json& workload) { workload = Cut(workload, kWorkloadShape); }

}  // namespace swarm::objects
