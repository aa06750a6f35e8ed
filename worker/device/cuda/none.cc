#include "worker/device/cuda/cuda_device.h"

namespace swarm::device {
namespace {

Status NoCuda() { return Unavailable("this build is without CUDA; build with the preset cuda"); }

}  // namespace

Result<std::shared_ptr<Device>> MakeCudaDevice(int) { return NoCuda(); }
Result<std::uint64_t> FreeCudaMemory(int) { return NoCuda(); }
Result<std::string> DescribeCudaDevice(int) { return NoCuda(); }

}  // namespace swarm::device
