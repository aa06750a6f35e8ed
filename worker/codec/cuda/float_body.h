// Narrow floats, as the bits of their formats. Rounded to nearest, halfway to even; a NaN stays
// one, and what is too large becomes infinite. Functions of one number: their kernels go over
// packs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

struct ToBFloat16 {
  SWARM_BODY std::uint16_t operator()(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;  // must not become infinite
    const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return static_cast<std::uint16_t>((nan ? bits | 0x400000 : rounded) >> 16);
  }
};

struct FromBFloat16 {
  SWARM_BODY float operator()(std::uint16_t half) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
};

struct ToFloat16 {
  SWARM_BODY std::uint16_t operator()(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520
    if (magnitude < 0x38800000) {  // 2^-14: the result is a multiple of 2^-24
      const float steps = rintf(std::bit_cast<float>(magnitude) * 0x1p24f);
      return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(steps));
    }
    const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
  }
};

struct FromFloat16 {
  SWARM_BODY float operator()(std::uint16_t half) const {
    const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    std::uint32_t bits = 0x7f800000 | (magnitude << 13);  // infinite, or a NaN
    if (magnitude < 0x400) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    } else if (magnitude < 0x7c00) {
      bits = (magnitude << 13) + 0x38000000;
    }
    return std::bit_cast<float>(sign | bits);
  }
};

}  // namespace swarm::codec::cuda
