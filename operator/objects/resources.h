// Start parameters of a worker that follow from the resources of its container.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace swarm::objects {

/// The compute threads for a container with these resources: its cpu limit, or its cpu request,
/// rounded up. 1: it has neither.
int ThreadsOf(const nlohmann::json& resources);

/// The memory of a container with these resources: its limit, or its request, in bytes. 0: it has
/// neither.
std::uint64_t MemoryOf(const nlohmann::json& resources);

/// "cuda:0" if the limits contain an accelerator: an extended resource of a vendor of GPUs, or one
/// with "gpu" in its name. If it is called gpu, as nvidia.com/gpu, "cuda:1" and so on for as many
/// as there are, at most 64; a part of a GPU is one device. "cpu" if there is none.
std::vector<std::string> DevicesOf(const nlohmann::json& resources);

}  // namespace swarm::objects
