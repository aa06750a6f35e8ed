// Eight bits a number, in blocks with a scale of their own: a block of B numbers with the largest
// magnitude a is sent as a (float32) and B codes of x / a. No tensors here: plain memory, one
// thread, no allocation. Every Isa gives the same bytes.
//
// Two maps from codes to [-1, 1]:
// - Linear: code c is c / 127, c = round(x * (127 / a)) with ties to even.
//   |x - x'| <= a / 254, but for float32 rounding (a factor of 1 + 2^-20).
// - Dynamic: 256 entries, close together near zero and apart near one, so that a block with one
//   large number keeps its small ones (T. Dettmers, "8-bit approximations for parallelism in deep
//   learning", arXiv 1511.04561). The codes are those of bitsandbytes 0.50 on a CPU: x / a is
//   rounded to one of 65 536 equal steps of [-1, 1], and the entry nearest to that is taken.
//   |x - x'| <= 0.0071 a.
// Blocks with a < 2^-100 are sent as zeros.
//
// A block with a number that is not finite has no codes. Where NotFinite says so, it is sent with
// the scale NaN (0x7fc00000) and codes of zero, and read as NaNs.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/status.h"
#include "worker/codec/blocks/cpu_features.h"

namespace swarm::codec {

enum class CodeMap { kLinear, kDynamic };
enum class NotFinite { kRefused, kBlockOfNaNs };

class BlockCodes {
 public:
  /// Blocks of `block` numbers, of which the last may have fewer. Requires block > 0.
  BlockCodes(CodeMap map, std::size_t block, NotFinite not_finite = NotFinite::kRefused)
      : map_(map), block_(block), not_finite_(not_finite) {}

  /// Of the encoding: a float32 for each block, then a byte for each number.
  std::size_t EncodedBytes(std::size_t numbers) const {
    return Blocks(numbers) * sizeof(float) + numbers;
  }

  /// Writes EncodedBytes(values.size()) bytes to `out`, which needs no alignment. Errors:
  /// kInvalidArgument for a number that is not finite, with kRefused; `out` is then undefined.
  Status Encode(std::span<const float> values, std::byte* out, Isa isa = BestIsa()) const;

  /// Reads as many numbers as `values` has. Errors: kDataLoss for another size, and for a scale or
  /// code that no encoder writes; `values` is then undefined.
  Status Decode(std::span<const std::byte> payload, std::span<float> values,
                Isa isa = BestIsa()) const;

  /// What Decode says of the payload of so many numbers, without the numbers: for a payload that a
  /// device decodes.
  Status Check(std::span<const std::byte> payload, std::size_t numbers) const;

  CodeMap map() const { return map_; }
  std::size_t block() const { return block_; }
  NotFinite not_finite() const { return not_finite_; }

 private:
  Status CheckSize(std::size_t bytes, std::size_t numbers) const;

  std::size_t Blocks(std::size_t numbers) const { return (numbers + block_ - 1) / block_; }

  CodeMap map_;
  std::size_t block_;
  NotFinite not_finite_;
};

/// The entries of the dynamic map in ascending order, from -0.99... to 1, with 0 among them.
const std::array<float, 256>& DynamicMap();

}  // namespace swarm::codec
