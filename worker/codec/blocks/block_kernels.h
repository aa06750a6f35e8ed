// The loops of block_codes.h, once for each instruction set; the scalar loops are the reference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/codec/blocks/cpu_features.h"

namespace swarm::codec {

/// From a step of [-1, 1] to the nearest entry of the dynamic map.
struct NearestEntry {
  static constexpr std::size_t kSteps = 65536;
  static constexpr std::size_t kPadding = 3;  // for reads of four bytes at the last step
  std::array<std::uint8_t, kSteps + kPadding> code{};
};
const NearestEntry& NearestEntries();

struct BlockKernels {
  /// The largest magnitude, as the bits of a float32: their order is that of the numbers, and those
  /// of infinities and NaNs are the largest.
  std::uint32_t (*largest)(const float* x, std::size_t n);
  /// Codes of x * factor, rounded; requires |x * factor| < 127.5.
  void (*quantize_linear)(const float* x, std::size_t n, float factor, std::uint8_t* codes);
  /// False if a code is -128.
  bool (*dequantize_linear)(const std::uint8_t* codes, std::size_t n, float factor, float* x);
  /// Codes of x * factor; requires |x * factor| <= 1 but for rounding.
  void (*quantize_dynamic)(const float* x, std::size_t n, float factor, const NearestEntry& nearest,
                           std::uint8_t* codes);
  void (*dequantize_dynamic)(const std::uint8_t* codes, std::size_t n, const float* map,
                             float factor, float* x);
};

extern const BlockKernels kScalarKernels, kAvx2Kernels, kAvx512Kernels;

/// Requires HasIsa(isa).
const BlockKernels& KernelsOf(Isa isa);

}  // namespace swarm::codec
