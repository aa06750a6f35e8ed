// The bodies of the kernels for block codes: a team encodes or decodes one block. The bytes and
// numbers are those of worker/codec/blocks/block_codes.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/team.h"

namespace swarm::codec::cuda {

// As bits of a float32. Magnitudes have the same order as their bits.
inline constexpr std::uint32_t kMagnitude = 0x7fffffff;
inline constexpr std::uint32_t kInfinity = 0x7f800000;
inline constexpr std::uint32_t kNaN = 0x7fc00000;
inline constexpr std::uint32_t kTiny = 0x0d800000;  // 2^-100

/// 1.5 2^23: what is added to it is rounded as rintf rounds, and stands in the lowest bits of the
/// sum, as an integer of two's complement. A GPU converts a quarter as fast as it adds.
inline constexpr float kRounder = 12582912.0f;
inline constexpr std::uint32_t kRounderBits = 0x4b400000;
SWARM_BODY std::uint8_t CodeOfRounded(float value) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value + kRounder));
}
SWARM_BODY float NumberOfCode(std::uint8_t code) {
  const std::int32_t number = static_cast<std::int8_t>(code);
  return std::bit_cast<float>(kRounderBits + static_cast<std::uint32_t>(number)) - kRounder;
}

/// The largest magnitude of a block, as bits.
template <unsigned kWidth, typename Team>
SWARM_BODY std::uint32_t LargestOfBlock(const Team& team, const float* x, std::size_t n) {
  return team.Max([&](unsigned lane) {
    std::uint32_t largest = 0;
    const auto take = [&](float value) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & kMagnitude;
      if (magnitude > largest) largest = magnitude;
    };
    ForShare<kWidth, Team::kLanes>(
        lane, x, n,
        [&](std::size_t, const auto& numbers) {
          for (const float number : numbers.at) take(number);
        },
        [&](std::size_t i) { take(x[i]); });
    return largest;
  });
}

/// codes[i] = code_of(x[i])
template <unsigned kWidth, typename Team, typename CodeOf>
SWARM_BODY void EncodeNumbers(const Team& team, const float* x, std::size_t n, std::uint8_t* codes,
                              CodeOf code_of) {
  team.Each([&](unsigned lane) {
    ForShare<kWidth, Team::kLanes>(
        lane, x, n,
        [&](std::size_t i, const auto& numbers) {
          Pack<std::uint8_t, kWidth> packed;
          for (unsigned w = 0; w < kWidth; ++w) packed.at[w] = code_of(numbers.at[w]);
          PackAt<kWidth>(codes, i) = packed;
        },
        [&](std::size_t i) { codes[i] = code_of(x[i]); });
  });
}

/// x[i] = number_of(codes[i]). Returns whether is_wrong(code) holds for one of the codes.
template <unsigned kWidth, typename Team, typename NumberOf, typename IsWrong>
SWARM_BODY bool DecodeNumbers(const Team& team, const std::uint8_t* codes, std::size_t n, float* x,
                              NumberOf number_of, IsWrong is_wrong) {
  const std::uint32_t any = team.Max([&](unsigned lane) {
    std::uint32_t wrong = 0;
    const auto decode = [&](std::uint8_t code) {
      if (is_wrong(code)) wrong = 1;
      return number_of(code);
    };
    ForShare<kWidth, Team::kLanes>(
        lane, codes, n,
        [&](std::size_t i, const auto& packed) {
          Pack<float, kWidth> numbers;
          for (unsigned w = 0; w < kWidth; ++w) numbers.at[w] = decode(packed.at[w]);
          PackAt<kWidth>(x, i) = numbers;
        },
        [&](std::size_t i) { x[i] = decode(codes[i]); });
    return wrong;
  });
  return any != 0;
}

/// Where a block lies in the numbers. Its codes begin so many bytes behind the scales.
struct BlockPlace {
  std::size_t begin, count;
};
SWARM_BODY BlockPlace PlaceOf(std::size_t index, std::size_t block, std::size_t n) {
  const std::size_t begin = index * block;
  return {begin, n - begin < block ? n - begin : block};
}
/// Of the scales of all blocks. The host computes it: a division costs a lane more than its
/// numbers do.
inline std::size_t ScaleBytes(std::size_t n, std::size_t block) {
  return (n + block - 1) / block * sizeof(float);
}

/// As EncodeBlocks of kernels.h. kWidth 4 requires a block that is a multiple of 4, and packs that
/// are aligned.
struct EncodeTask {
  const float* x;
  std::size_t n;
  std::size_t block;
  const DynamicTables* tables;
  std::byte* payload;
  std::uint32_t* odd_block;
  std::size_t scales = ScaleBytes(n, block);
};

template <CodeMap kMap, unsigned kWidth, typename Team>
SWARM_BODY void EncodeBlock(const Team& team, const EncodeTask& task, std::size_t index) {
  const BlockPlace place = PlaceOf(index, task.block, task.n);
  const float* x = task.x + place.begin;
  auto* codes = reinterpret_cast<std::uint8_t*>(task.payload + task.scales + place.begin);
  std::uint32_t bits = LargestOfBlock<kWidth>(team, x, place.count);
  const bool finite = bits < kInfinity;
  if (!finite) bits = kNaN;
  if (bits < kTiny) bits = 0;
  team.Once([&] { reinterpret_cast<std::uint32_t*>(task.payload)[index] = bits; });
  const float largest = std::bit_cast<float>(bits);
  if (!finite) team.Lower(task.odd_block, static_cast<std::uint32_t>(index));
  if (!finite || bits == 0) {
    EncodeNumbers<kWidth>(team, x, place.count, codes, [](float) { return std::uint8_t{0}; });
  } else if constexpr (kMap == CodeMap::kLinear) {
    const float factor = 127.0f / largest;
    EncodeNumbers<kWidth>(team, x, place.count, codes,
                          [factor](float value) { return CodeOfRounded(value * factor); });
  } else {
    const float factor = 1.0f / largest;
    const std::uint8_t* nearest = task.tables->nearest.code.data();
    EncodeNumbers<kWidth>(team, x, place.count, codes, [factor, nearest](float value) {
      // Rounding leads at most 2^-21 over [-1, 1], which changes no step: it needs no bounds.
      const float y = value * factor;
      return nearest[static_cast<std::uint32_t>(fmaf((y + 1) * 0.5f, 65535.0f, 0.5f))];
    });
  }
}

/// As DecodeBlocks of kernels.h. kWidth 4 requires a block that is a multiple of 4, and packs that
/// are aligned.
struct DecodeTask {
  const std::byte* payload;
  std::size_t n;
  std::size_t block;
  const DynamicTables* tables;
  NotFinite not_finite;
  float* x;
  std::uint32_t* odd_block;
  std::size_t scales = ScaleBytes(n, block);
};

template <CodeMap kMap, unsigned kWidth, typename Team>
SWARM_BODY void DecodeBlock(const Team& team, const DecodeTask& task, std::size_t index) {
  const BlockPlace place = PlaceOf(index, task.block, task.n);
  float* x = task.x + place.begin;
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(task.payload + task.scales + place.begin);
  const std::uint32_t scale = reinterpret_cast<const std::uint32_t*>(task.payload)[index];
  const float largest = std::bit_cast<float>(scale);
  bool odd = false;
  if (scale == kNaN && task.not_finite == NotFinite::kBlockOfNaNs) {
    odd = DecodeNumbers<kWidth>(
        team, codes, place.count, x, [largest](std::uint8_t) { return largest; },
        [](std::uint8_t code) { return code != 0; });
  } else if (largest != 0 && !(scale >= kTiny && scale < kInfinity)) {
    odd = true;
  } else if constexpr (kMap == CodeMap::kLinear) {
    const float factor = largest / 127.0f;
    odd = DecodeNumbers<kWidth>(
        team, codes, place.count, x,
        [factor](std::uint8_t code) { return NumberOfCode(code) * factor; },
        [](std::uint8_t code) { return code == 0x80; });
  } else {
    const float* map = task.tables->map.data();
    odd = DecodeNumbers<kWidth>(
        team, codes, place.count, x,
        [largest, map](std::uint8_t code) { return map[code] * largest; },
        [](std::uint8_t) { return false; });
  }
  if (odd) team.Lower(task.odd_block, static_cast<std::uint32_t>(index));
}

}  // namespace swarm::codec::cuda
