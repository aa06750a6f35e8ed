// What of Kubernetes' objects the operator keeps in memory: what read.h reads, and what tells one
// object from another. A pod is then a tenth of what the API server sends.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace swarm::objects {

/// ReadPod, and who asks for its owner or address, find in the rest what was there before. Whatever
/// it is, nothing is thrown.
void TrimPod(nlohmann::json& pod);
/// As TrimPod, with ReadNode.
void TrimNode(nlohmann::json& node);

}  // namespace swarm::objects
