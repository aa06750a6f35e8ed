#include "worker/codec/block_codecs.h"

#include <ATen/ATen.h>

#include <utility>

#include "worker/codec/device_blocks.h"

namespace swarm::codec {
namespace {

std::size_t Numbers(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

class BlockCodec final : public Codec {
 public:
  BlockCodec(CodeMap map, std::size_t block) : codes_(map, block, NotFinite::kBlockOfNaNs) {}

  std::size_t EncodedBytes(std::int64_t elements) const override {
    return codes_.EncodedBytes(static_cast<std::size_t>(elements));
  }

  Result<Bytes> Encode(const at::Tensor& tensor) const override {
    const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
    Status status;
    const Bytes payload = Bytes::Make(EncodedBytes(host.numel()), [&](std::byte* out) {
      status = codes_.Encode({host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())},
                             out);
    });
    if (!status.ok()) return status;
    return payload;
  }

  Result<at::Tensor> Decode(const Bytes& payload, at::IntArrayRef shape,
                            at::Device device) const override {
    // Allocates nothing for a payload of another size, however large the shape may be.
    const std::int64_t elements = c10::multiply_integers(shape);
    if (payload.size() != EncodedBytes(elements)) {
      return WrongSize(payload.size(), EncodedBytes(elements));
    }
    at::Tensor tensor = at::empty(shape, at::kFloat);
    RETURN_IF_ERROR(codes_.Decode(
        payload.span(), {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(elements)}));
    return tensor.to(device);
  }

  Status Check(const Bytes& payload, std::int64_t elements) const override {
    return codes_.Check(payload.span(), static_cast<std::size_t>(elements));
  }
  Status DecodeOnDevice(const std::byte* from, const at::Tensor& tensor) const override {
    if (!tensor.is_cpu()) return DecodeBlocksOnDevice(codes_, from, tensor);
    return codes_.Decode({from, EncodedBytes(tensor.numel())},
                         {tensor.mutable_data_ptr<float>(), Numbers(tensor)});
  }
  Status EncodeOnDevice(const at::Tensor& tensor, std::byte* to) const override {
    if (!tensor.is_cpu()) return EncodeBlocksOnDevice(codes_, tensor, to);
    return codes_.Encode({tensor.const_data_ptr<float>(), Numbers(tensor)}, to);
  }

 private:
  BlockCodes codes_;
};

}  // namespace

std::unique_ptr<Codec> MakeBlockCodec(CodeMap map, std::size_t block) {
  return std::make_unique<BlockCodec>(map, block);
}

}  // namespace swarm::codec
