#include "worker/codec/blocks/nibble_codes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "worker/codec/blocks/block_kernels.h"
#include "worker/codec/blocks/block_scale.h"

namespace swarm::codec {
namespace {

/// The codes of a block, a byte each; those behind its end are 0.
using Codes = std::array<std::uint8_t, NibbleCodes::kBlock>;

std::size_t ScaleBytes(std::size_t numbers) {
  return NibbleCodes::EncodedBytes(numbers) - (numbers + 1) / 2;
}

void Pack(const Codes& codes, std::size_t bytes, std::byte* to) {
  for (std::size_t i = 0; i < bytes; ++i) {
    to[i] = static_cast<std::byte>((codes[2 * i] & 0xf) | (codes[2 * i + 1] << 4));
  }
}

std::uint8_t Widen(unsigned nibble) { return static_cast<std::uint8_t>((nibble ^ 8) - 8); }

void Unpack(const std::byte* from, std::size_t bytes, Codes& codes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto pair = static_cast<unsigned>(from[i]);
    codes[2 * i] = Widen(pair & 0xf);
    codes[2 * i + 1] = Widen(pair >> 4);
  }
}

/// -8, which no encoder writes.
bool HoldsMinusEight(const Codes& codes) {
  return std::ranges::find(codes, Widen(8)) != codes.end();
}

}  // namespace

Status NibbleCodes::Encode(std::span<const float> values, std::byte* out, Isa isa) {
  const BlockKernels& kernels = KernelsOf(isa);
  std::byte* scale = out;
  std::byte* pairs = out + ScaleBytes(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock, scale += sizeof(float)) {
    const std::size_t n = std::min(kBlock, values.size() - begin);
    const std::uint32_t bits = kernels.largest(values.data() + begin, n);
    if (bits >= kInfinity) {
      return InvalidArgument("4-bit codes: numbers " + std::to_string(begin) + " to " +
                             std::to_string(begin + n - 1) +
                             " hold one that is not finite; the training has diverged");
    }
    const float largest = ScaleOf(bits);
    std::memcpy(scale, &largest, sizeof largest);
    Codes codes{};
    if (largest > 0) {
      kernels.quantize_linear(values.data() + begin, n, 7.0f / largest, codes.data());
    }
    Pack(codes, (n + 1) / 2, pairs + begin / 2);
  }
  return {};
}

Status NibbleCodes::Decode(std::span<const std::byte> payload, std::span<float> values, Isa isa) {
  if (payload.size() != EncodedBytes(values.size())) {
    return DataLoss("4-bit codes: " + std::to_string(payload.size()) + " bytes, expected " +
                    std::to_string(EncodedBytes(values.size())) + "; ask for it again");
  }
  const BlockKernels& kernels = KernelsOf(isa);
  const std::byte* scale = payload.data();
  const std::byte* pairs = payload.data() + ScaleBytes(values.size());
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock, scale += sizeof(float)) {
    const std::size_t n = std::min(kBlock, values.size() - begin);
    Codes codes{};
    Unpack(pairs + begin / 2, (n + 1) / 2, codes);
    const float largest = ReadScale(scale);
    const bool padded = n == kBlock || codes[n] == 0;  // what an odd number leaves of a byte
    if (!IsScale(largest) || HoldsMinusEight(codes) || !padded) {
      return DataLoss("4-bit codes: the block at number " + std::to_string(begin) +
                      " is not one that an encoder writes; ask for it again");
    }
    kernels.dequantize_linear(codes.data(), n, largest / 7.0f, values.data() + begin);
  }
  return {};
}

}  // namespace swarm::codec
