// For this folder: the scale of a block of codes, which is its largest magnitude, a float32.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swarm::codec {

inline constexpr std::uint32_t kInfinity = 0x7f800000u;
inline constexpr float kTiny = 0x1p-100f;

/// Of a block whose largest magnitude, as the bits of a float32, this is. Requires a finite one.
inline float ScaleOf(std::uint32_t largest) {
  const float scale = std::bit_cast<float>(largest);
  return scale < kTiny ? 0 : scale;
}

inline float ReadScale(const std::byte* at) {
  float largest = 0;
  std::memcpy(&largest, at, sizeof largest);
  return largest;
}

/// Of a block that has codes.
inline bool IsScale(float largest) {
  return largest == 0 || (largest >= kTiny && std::isfinite(largest));
}

}  // namespace swarm::codec
