// Where libtorch computes.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "base/status.h"

namespace swarm::model {

/// The device of that name: "cpu", or "cuda:N". The first GPU loads libtorch's CUDA half and
/// NVIDIA's libraries, which takes seconds. They are not linked: a program that computes on the CPU
/// starts without them, and threads with small stacks, as libraries make them, start beside the
/// thread-local storage that NVIDIA's need where they are loaded from the beginning. A process that
/// computes on a GPU opens it before it computes on the CPU: libtorch counts its devices once.
/// Errors: kUnavailable (no such device, or not in this build).
Result<at::Device> OpenDevice(const std::string& name);

}  // namespace swarm::model
