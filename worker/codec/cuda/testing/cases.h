// Inputs on which kernels and the CPU's code must agree to the last bit: odd sizes, and numbers
// that are large, tiny, denormal, halfway between two codes, infinite, or no number.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace swarm::codec::cuda {

inline std::vector<float> NormalNumbers(std::size_t n, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

/// Any 32 bits: all magnitudes, denormals, infinities and NaNs.
inline std::vector<float> AnyNumbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  return values;
}

/// Finite numbers of all magnitudes, of which neighbours are alike.
inline std::vector<float> WideNumbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int exponent = static_cast<int>((i / 50 * 37) % 277) - 149;
    values[i] = std::ldexp(static_cast<float>(random() % 4096) - 2048.0f, exponent - 12);
  }
  return values;
}

/// 127 and halves between -127 and 127: each block that has 127 has only ties.
inline std::vector<float> Ties(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = i % 7 == 0 ? 127.0f : static_cast<float>(i % 254) - 126.5f;
  }
  return values;
}

/// `values` with one that is not finite in each of its places in turn.
inline std::vector<std::vector<float>> WithOneNotFinite(const std::vector<float>& values) {
  const float kinds[] = {std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  std::vector<std::vector<float>> cases;
  for (std::size_t i = 0; i < values.size(); ++i) {
    cases.push_back(values);
    cases.back()[i] = kinds[i % 3];
  }
  return cases;
}

/// All of them, of n numbers.
inline std::vector<std::vector<float>> NumbersOfAllKinds(std::size_t n) {
  const auto seed = static_cast<unsigned>(n);
  return {NormalNumbers(n, seed),
          NormalNumbers(n, seed, 1e-38f),
          NormalNumbers(n, seed, 1e37f),
          AnyNumbers(n, seed),
          WideNumbers(n, seed),
          Ties(n),
          std::vector<float>(n, -0.0f),
          std::vector<float>(n, 0x1p-100f),
          std::vector<float>(n, 0x1.fffffep-101f)};
}

}  // namespace swarm::codec::cuda
