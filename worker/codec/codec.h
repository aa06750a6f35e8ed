// The encoding of tensors that cross a boundary between stages: activations forward, gradients
// backward. Used by worker/model only; one of the three places that know libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"

namespace swarm::codec {

/// Tensor to bytes and back, without state. The bytes are the same on every machine.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Bytes of the encoding of so many elements.
  virtual std::size_t EncodedBytes(std::int64_t elements) const = 0;
  /// The encoding of a float32 tensor on any device. May share the tensor's memory, which then must
  /// not be written any more. An element that is not finite is not finite on the other side: a step
  /// is then skipped, whatever the codec (docs/protocol.md).
  virtual Result<Bytes> Encode(const at::Tensor& tensor) const = 0;
  /// The float32 tensor of that shape on `device`. May share the payload's memory: do not write to
  /// it. Errors: kDataLoss where the payload has the wrong size for the shape, or is none that
  /// Encode writes.
  virtual Result<at::Tensor> Decode(const Bytes& payload, at::IntArrayRef shape,
                                    at::Device device) const = 0;

  // The same in two halves, for a device that bytes take time to reach.

  /// What Decode says of a payload, without the tensor. Errors: kDataLoss.
  virtual Status Check(const Bytes& payload, std::int64_t elements) const = 0;
  /// Enqueues the work that reads a payload, which Check has passed, at `from` in the memory of the
  /// device of `tensor`, and fills that: contiguous float32. Errors: kInternal (the device
  /// refuses).
  virtual Status DecodeOnDevice(const std::byte* from, const at::Tensor& tensor) const = 0;
  /// Enqueues the work that writes EncodedBytes to `to`. Otherwise as DecodeOnDevice.
  virtual Status EncodeOnDevice(const at::Tensor& tensor, std::byte* to) const = 0;
};

enum class Direction { kForward, kBackward };

/// The codec of the numbers that cross a boundary, or of their gradients. With a learned boundary
/// these are its coefficients.
std::unique_ptr<Codec> MakeCodec(const api::Boundary& boundary, Direction direction);

/// For this folder: the error of a payload whose size does not fit its shape.
Status WrongSize(std::size_t bytes, std::size_t expected);

}  // namespace swarm::codec
