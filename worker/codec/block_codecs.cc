#include "worker/codec/block_codecs.h"

#include <ATen/ATen.h>

#include <utility>

namespace swarm::codec {
namespace {

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

 private:
  BlockCodes codes_;
};

}  // namespace

std::unique_ptr<Codec> MakeBlockCodec(CodeMap map, std::size_t block) {
  return std::make_unique<BlockCodec>(map, block);
}

}  // namespace swarm::codec
