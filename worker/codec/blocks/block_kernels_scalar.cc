#include <algorithm>
#include <bit>
#include <cmath>

#include "worker/codec/blocks/block_kernels.h"

namespace swarm::codec {
namespace {

std::uint32_t Largest(const float* x, std::size_t n) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  }
  return largest;
}

void QuantizeLinear(const float* x, std::size_t n, float factor, std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::uint8_t>(std::lrintf(x[i] * factor));
  }
}

bool DequantizeLinear(const std::uint8_t* codes, std::size_t n, float factor, float* x) {
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = static_cast<std::int8_t>(codes[i]);
    good &= code != -128;
    x[i] = static_cast<float>(code) * factor;
  }
  return good;
}

void QuantizeDynamic(const float* x, std::size_t n, float factor, const NearestEntry& nearest,
                     std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i) {
    const float y = std::clamp(x[i] * factor, -1.0f, 1.0f);
    // The one rounding of a fused multiply-add, as in the vector loops.
    codes[i] = nearest.code[static_cast<std::size_t>(std::fma((y + 1) * 0.5f, 65535.0f, 0.5f))];
  }
}

void DequantizeDynamic(const std::uint8_t* codes, std::size_t n, const float* map, float factor,
                       float* x) {
  for (std::size_t i = 0; i < n; ++i) x[i] = map[codes[i]] * factor;
}

}  // namespace

const BlockKernels kScalarKernels = {Largest, QuantizeLinear, DequantizeLinear, QuantizeDynamic,
                                     DequantizeDynamic};

const BlockKernels& KernelsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Kernels;
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kScalar:
      break;
  }
  return kScalarKernels;
}

}  // namespace swarm::codec
