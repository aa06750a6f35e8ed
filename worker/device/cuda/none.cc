#include "worker/device/cuda/cuda_device.h"

namespace swarm::device {

Result<std::shared_ptr<Device>> MakeCudaDevice(int) {
  return Unavailable("this build is without CUDA; build with the preset cuda");
}

}  // namespace swarm::device
