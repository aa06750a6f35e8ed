#include "worker/codec/float_codecs.h"

#include <ATen/ATen.h>

#include <utility>

namespace swarm::codec {
namespace {

/// The tensor's memory, on the host and in row-major order, kept alive by the tensor.
Bytes WrapTensor(const at::Tensor& tensor) {
  auto owner = std::make_shared<at::Tensor>(tensor.detach().to(at::kCPU).contiguous());
  return Bytes::Wrap(owner->const_data_ptr(), owner->nbytes(), owner);
}

/// A tensor over the payload's memory. Requires: the size fits; aligned to an element.
at::Tensor ViewBytes(const Bytes& payload, at::IntArrayRef shape, at::ScalarType type) {
  void* memory = const_cast<std::byte*>(payload.data());  // NOLINT: never written, see Decode
  return at::from_blob(
      memory, shape, [owner = payload.owner()](void*) {}, at::TensorOptions().dtype(type));
}

class FloatCodec final : public Codec {
 public:
  explicit FloatCodec(at::ScalarType type) : type_(type) {}

  std::size_t EncodedBytes(std::int64_t elements) const override {
    return static_cast<std::size_t>(elements) * c10::elementSize(type_);
  }

  Result<Bytes> Encode(const at::Tensor& tensor) const override {
    return WrapTensor(tensor.detach().to(type_));
  }

  Result<at::Tensor> Decode(const Bytes& payload, at::IntArrayRef shape,
                            at::Device device) const override {
    const std::size_t expected = EncodedBytes(c10::multiply_integers(shape));
    if (payload.size() != expected) {
      return WrongSize(payload.size(), expected);
    }
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(payload.data()) % c10::elementSize(type_) == 0;
    const Bytes readable = aligned ? payload : Bytes::Copy(payload.data(), payload.size());
    return ViewBytes(readable, shape, type_).to(at::TensorOptions(device).dtype(at::kFloat));
  }

  Status Check(const Bytes& payload, std::int64_t elements) const override {
    if (payload.size() != EncodedBytes(elements)) {
      return WrongSize(payload.size(), EncodedBytes(elements));
    }
    return {};
  }
  Status DecodeOnDevice(const std::byte* from, const at::Tensor& tensor) const override {
    void* memory = const_cast<std::byte*>(from);  // NOLINT: only read
    tensor.copy_(at::from_blob(memory, tensor.sizes(), tensor.options().dtype(type_)));
    return {};
  }
  Status EncodeOnDevice(const at::Tensor& tensor, std::byte* to) const override {
    at::from_blob(to, tensor.sizes(), tensor.options().dtype(type_)).copy_(tensor);
    return {};
  }

 private:
  at::ScalarType type_;
};

}  // namespace

std::unique_ptr<Codec> MakeFloat32Codec() { return std::make_unique<FloatCodec>(at::kFloat); }
std::unique_ptr<Codec> MakeBFloat16Codec() { return std::make_unique<FloatCodec>(at::kBFloat16); }

}  // namespace swarm::codec
