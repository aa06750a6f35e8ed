#include "worker/model/decoder/port.h"

#include <ATen/ATen.h>

#include <utility>

#include "worker/device/transfers.h"

namespace swarm::model {
namespace {

class HostPort final : public Port {
 public:
  Result<at::Tensor> Receive(const codec::Codec& codec, const Bytes& payload,
                             at::IntArrayRef shape) override {
    return codec.Decode(payload, shape, at::kCPU);
  }
  Result<at::Tensor> Place(const at::Tensor& on_host) override { return on_host; }
  void Send(const codec::Codec& codec, const at::Tensor& tensor, Done<Bytes> done) override {
    done(codec.Encode(tensor));
  }
  void Finish(Done<Bytes> done) override { done(Bytes()); }
};

class DevicePort final : public Port {
 public:
  DevicePort(at::Device device, std::shared_ptr<device::Transfers> transfers)
      : device_(device), transfers_(std::move(transfers)) {}

  Result<at::Tensor> Receive(const codec::Codec& codec, const Bytes& payload,
                             at::IntArrayRef shape) override {
    RETURN_IF_ERROR(codec.Check(payload, c10::multiply_integers(shape)));
    at::Tensor tensor = at::empty(shape, at::TensorOptions(device_).dtype(at::kFloat));
    Status decoded;
    RETURN_IF_ERROR(transfers_->ToDevice(
        payload, [&](const std::byte* from) { decoded = codec.DecodeOnDevice(from, tensor); }));
    if (!decoded.ok()) return decoded;
    return tensor;
  }

  Result<at::Tensor> Place(const at::Tensor& on_host) override {
    const at::Tensor source = on_host.contiguous();
    at::Tensor tensor = at::empty(source.sizes(), source.options().device(device_));
    const Bytes bytes = Bytes::Wrap(source.const_data_ptr(), source.nbytes(), nullptr);
    RETURN_IF_ERROR(transfers_->ToDevice(bytes, [&](const std::byte* from) {
      void* memory = const_cast<std::byte*>(from);  // NOLINT: only read
      tensor.copy_(at::from_blob(memory, tensor.sizes(), tensor.options()));
    }));
    return tensor;
  }

  void Finish(Done<Bytes> done) override {
    transfers_->AfterCompute([done = std::move(done)](const Status& status) {
      done(status.ok() ? Result<Bytes>(Bytes()) : status);
    });
  }

  void Send(const codec::Codec& codec, const at::Tensor& tensor, Done<Bytes> done) override {
    const at::Tensor values = tensor.detach().to(at::kFloat).contiguous();
    Status encoded;
    const Status sent = transfers_->ToHost(
        codec.EncodedBytes(values.numel()),
        [&](std::byte* to) { encoded = codec.EncodeOnDevice(values, to); }, done);
    if (!sent.ok()) done(sent);
    // Only a device that is of no use any more refuses a kernel; `done` hears of that.
    if (!encoded.ok()) transfers_->Break(encoded);
  }

 private:
  const at::Device device_;
  const std::shared_ptr<device::Transfers> transfers_;
};

}  // namespace

std::unique_ptr<Port> MakeHostPort() { return std::make_unique<HostPort>(); }

std::unique_ptr<Port> MakeDevicePort(at::Device device,
                                     std::shared_ptr<device::Transfers> transfers) {
  return std::make_unique<DevicePort>(device, std::move(transfers));
}

}  // namespace swarm::model
