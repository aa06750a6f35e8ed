#include "worker/stage/reduce/reduce_codec.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "api/model/reduce.h"
#include "worker/codec/blocks/block_codes.h"
#include "worker/codec/blocks/nibble_codes.h"

namespace swarm::stage {
namespace {

/// The upper half of a float32, rounded to the nearest, ties to even.
class BFloat16 final : public ReduceCodec {
 public:
  std::size_t EncodedBytes(std::size_t count) const override {
    return count * sizeof(std::uint16_t);
  }

  Bytes Encode(std::span<const float> values) const override {
    const std::shared_ptr<std::byte[]> memory(new std::byte[EncodedBytes(values.size())]);
    auto* out = reinterpret_cast<std::uint16_t*>(memory.get());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
      const bool nan = (bits & 0x7fffffff) > 0x7f800000;  // must not become infinite, or zero
      out[i] = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : rounded);
    }
    return Bytes::Wrap(memory.get(), EncodedBytes(values.size()), memory);
  }

  Status Decode(const Bytes& payload, std::span<float> values) const override {
    if (payload.size() != EncodedBytes(values.size())) return DataLoss("a chunk of another size");
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, payload.data() + i * sizeof half, sizeof half);
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    }
    return Status();
  }
};

/// Linear codes in blocks with a scale, as `Codes` makes them.
template <typename Codes>
class BlockReduceCodec final : public ReduceCodec {
 public:
  explicit BlockReduceCodec(Codes codes) : codes_(codes) {}

  std::size_t EncodedBytes(std::size_t count) const override { return codes_.EncodedBytes(count); }

  Bytes Encode(std::span<const float> values) const override {
    const std::shared_ptr<std::byte[]> memory(new std::byte[EncodedBytes(values.size())]);
    if (!codes_.Encode(values, memory.get()).ok()) return Bytes();
    return Bytes::Wrap(memory.get(), EncodedBytes(values.size()), memory);
  }

  Status Decode(const Bytes& payload, std::span<float> values) const override {
    if (payload.empty()) {
      std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
      return Status();
    }
    return codes_.Decode({payload.data(), payload.size()}, values);
  }

 private:
  const Codes codes_;
};

}  // namespace

std::unique_ptr<const ReduceCodec> MakeReduceCodec(api::ReduceCodec codec) {
  switch (codec) {
    case api::ReduceCodec::kNone:
      return nullptr;
    case api::ReduceCodec::kBF16:
      return std::make_unique<BFloat16>();
    case api::ReduceCodec::kInt8:
      return std::make_unique<BlockReduceCodec<codec::BlockCodes>>(
          codec::BlockCodes(codec::CodeMap::kLinear, api::kReduceBlock));
    case api::ReduceCodec::kInt4:
      static_assert(codec::NibbleCodes::kBlock == api::kNibbleBlock);
      return std::make_unique<BlockReduceCodec<codec::NibbleCodes>>(codec::NibbleCodes());
  }
  return nullptr;
}

}  // namespace swarm::stage
