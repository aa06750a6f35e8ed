// Block codes of tensors on a GPU, by the kernels of worker/codec/cuda where the build has them.
// For block_codecs.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "base/status.h"
#include "worker/codec/blocks/block_codes.h"

namespace swarm::codec {

/// Both enqueue work on the current stream of the tensor's device, which also holds the payload.
/// Contiguous float32. What decodes has passed BlockCodes::Check. Errors: kInternal (the device
/// refuses), kUnavailable (the build has no kernels).
Status EncodeBlocksOnDevice(const BlockCodes& codes, const at::Tensor& from, std::byte* to);
Status DecodeBlocksOnDevice(const BlockCodes& codes, const std::byte* from, const at::Tensor& to);

}  // namespace swarm::codec
