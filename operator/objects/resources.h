// What the resources of a worker's container say about how it is started.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace swarm::objects {

/// Compute threads for a container with these resources: its limit of cpu, or else its request,
/// rounded up; 1 where there is neither.
int ThreadsOf(const nlohmann::json& resources);

/// "cuda:0" where the limits hold an accelerator (an extended resource of a vendor of GPUs, or with
/// gpu in its name), or else "cpu".
std::string DeviceOf(const nlohmann::json& resources);

}  // namespace swarm::objects
