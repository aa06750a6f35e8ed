// Where encoded tensors come to a stage's device and leave it. On the CPU that is at once. On
// another device the bytes cross beside the computation: what was received is decoded, and what is
// sent encoded, by kernels that stand in the compute stream, and a copy on a stream of its own
// (worker/device/transfers.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/codec/codec.h"
#include "worker/model/stage.h"

namespace swarm::device {
class Transfers;
}

namespace swarm::model {

class Port {
 public:
  virtual ~Port() = default;
  /// The float32 tensor of that shape on the device. May share the payload's memory: do not write
  /// to it. Errors: as Codec::Decode; kResourceExhausted, kInternal (the device fails).
  virtual Result<at::Tensor> Receive(const codec::Codec& codec, const Bytes& payload,
                                     at::IntArrayRef shape) = 0;
  /// The same tensor on the device.
  virtual Result<at::Tensor> Place(const at::Tensor& on_host) = 0;
  /// `done` gets the encoding of a tensor of the device, which must not be written any more.
  virtual void Send(const codec::Codec& codec, const at::Tensor& tensor, Done<Bytes> done) = 0;
  /// `done` gets no bytes, when the device has computed what it was given.
  virtual void Finish(Done<Bytes> done) = 0;
};

/// Of a stage on the CPU.
std::unique_ptr<Port> MakeHostPort();
/// Of a stage whose tensors are on `device`, which the transfers reach.
std::unique_ptr<Port> MakeDevicePort(at::Device device,
                                     std::shared_ptr<device::Transfers> transfers);

}  // namespace swarm::model
