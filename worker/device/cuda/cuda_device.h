// An NVIDIA GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "worker/device/device.h"

namespace swarm::device {

/// The GPU of that number. Its compute stream is the legacy default stream, in which libtorch
/// works; the two streams of copies do not wait for that by themselves. Errors: kInternal (there is
/// none), kUnavailable (the build is without CUDA).
Result<std::shared_ptr<Device>> MakeCudaDevice(int index);

/// Bytes that were free on the GPU when this process first asked: later, libtorch keeps what it has
/// used. Errors: as MakeCudaDevice.
Result<std::uint64_t> FreeCudaMemory(int index);

/// Which GPU it is, and by which version of CUDA this process uses it, without spaces inside a
/// word: "NVIDIA_H100_80GB_HBM3:sm_90:132 cuda=13000" (132 multiprocessors). Errors: as
/// MakeCudaDevice.
Result<std::string> DescribeCudaDevice(int index);

}  // namespace swarm::device
