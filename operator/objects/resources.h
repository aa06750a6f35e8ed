// Start parameters of a worker that follow from the resources of its container.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace swarm::objects {

/// The compute threads for a container with these resources: its cpu limit, or its cpu request,
/// rounded up. 1: it has neither.
int ThreadsOf(const nlohmann::json& resources);

/// "cuda:0" if the limits contain an accelerator (an extended resource of a vendor of GPUs, or one
/// with "gpu" in its name), "cpu" otherwise.
std::string DeviceOf(const nlohmann::json& resources);

}  // namespace swarm::objects
