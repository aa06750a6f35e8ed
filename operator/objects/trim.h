// Reduces Kubernetes' objects to what the operator keeps in memory: the members that read.h reads,
// and those that identify an object. A pod then takes a tenth of what the API server sends.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace swarm::objects {

/// Keeps all members for ReadPod, and the owner and the address of the pod. Never throws.
void TrimPod(nlohmann::json& pod);
/// Keeps all members for ReadNode. Never throws.
void TrimNode(nlohmann::json& node);
/// Keeps all members for ReadWorkload, and the owner. Never throws.
void TrimWorkload(nlohmann::json& workload);

}  // namespace swarm::objects
