// Four bits a number, in blocks with a scale of their own: a block with the largest magnitude a is
// sent as a (float32) and codes c = round(x * (7 / a)), ties to even, from -7 to 7, two in a byte.
// |x - x'| <= a / 14, but for float32 rounding. No tensors here: plain memory, one thread, no
// allocation. Every Isa gives the same bytes.
//
// Coarse: for sums whose participants keep the error and send it later (reduce_codec.h). The error
// grows with the block, which the largest number in it rules.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "worker/codec/blocks/cpu_features.h"

namespace swarm::codec {

class NibbleCodes {
 public:
  /// Numbers in a block, of which the last may have fewer.
  static constexpr std::size_t kBlock = 64;

  /// Of the encoding: a float32 for each block, then a byte for every two numbers. In the first one
  /// are the lower four bits.
  static constexpr std::size_t EncodedBytes(std::size_t numbers) {
    return (numbers + kBlock - 1) / kBlock * sizeof(float) + (numbers + 1) / 2;
  }

  /// Writes EncodedBytes(values.size()) bytes to `out`, which needs no alignment. Errors:
  /// kInvalidArgument for a number that is not finite; `out` is then undefined.
  static Status Encode(std::span<const float> values, std::byte* out, Isa isa = BestIsa());

  /// Reads as many numbers as `values` has. Errors: kDataLoss for another size, and for a scale or
  /// code that no encoder writes; `values` is then undefined.
  static Status Decode(std::span<const std::byte> payload, std::span<float> values,
                       Isa isa = BestIsa());
};

}  // namespace swarm::codec
