#include "worker/codec/device_blocks.h"

namespace swarm::codec {
namespace {

Status NoKernels() {
  return Unavailable("this build has no kernels for GPUs; build with the preset cuda");
}

}  // namespace

Status EncodeBlocksOnDevice(const BlockCodes&, const at::Tensor&, std::byte*) {
  return NoKernels();
}
Status DecodeBlocksOnDevice(const BlockCodes&, const std::byte*, const at::Tensor&) {
  return NoKernels();
}

}  // namespace swarm::codec
