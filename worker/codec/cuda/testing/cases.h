// Inputs on which kernels and the CPU's code must agree to the last bit: odd sizes, and numbers
// that are large, tiny, denormal, halfway between two codes, infinite, or no number.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "worker/codec/blocks/block_kernels.h"
#include "worker/codec/blocks/testing/normal.h"

namespace swarm::codec::cuda {

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

/// Where the rounding of every operation counts, for blocks of 16 numbers. In the first, numbers
/// next to those at which the code of the dynamic map changes; the largest of a block is 1.
inline std::vector<float> NextToDynamicCodes() {
  const auto& codes = NearestEntries().code;
  std::vector<float> values;
  for (std::size_t step = 1; step < NearestEntry::kSteps; ++step) {
    if (codes[step] == codes[step - 1]) continue;
    const double begin = (2.0 * static_cast<double>(step) - 1) / 65535 - 1;
    for (int i = -16; i < 16; ++i) {
      if (values.size() % 16 == 0) values.push_back(1);
      values.push_back(static_cast<float>(begin + i * 0x1p-25));
    }
  }
  return values;
}
/// The same, next to the middles between linear codes; the largest number of a block is any.
inline std::vector<float> NextToLinearCodes() {
  std::mt19937 random(1);
  std::vector<float> values;
  for (int block = 0; block < 20000; ++block) {
    const auto largest = static_cast<float>(1 + random() % 1000003);
    values.push_back(largest);
    for (int i = 1; i < 16; ++i) {
      const double middle = static_cast<double>(random() % 127) + 0.5;
      values.push_back(static_cast<float>(middle * largest / 127));
    }
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

/// A microbatch of an embedding: which rows of a table its positions change, as AddRows takes it.
struct Lookups {
  std::vector<std::int64_t> tokens;   ///< of the positions
  std::vector<std::int64_t> ids;      ///< of the tokens, ascending
  std::vector<std::uint32_t> order;   ///< positions by token
  std::vector<std::uint32_t> begins;  ///< in `order`, of each id; and the end
};
inline Lookups SomeLookups(std::size_t positions, std::int64_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  Lookups lookups;
  for (std::size_t i = 0; i < positions; ++i) {
    // One token in three is the same one.
    lookups.tokens.push_back(i % 3 == 0 ? vocab / 2 : static_cast<std::int64_t>(random()) % vocab);
  }
  lookups.order.resize(positions);
  std::iota(lookups.order.begin(), lookups.order.end(), 0u);
  std::ranges::stable_sort(lookups.order, {}, [&](std::uint32_t i) { return lookups.tokens[i]; });
  for (std::uint32_t i = 0; i < positions; ++i) {
    const std::int64_t token = lookups.tokens[lookups.order[i]];
    if (!lookups.ids.empty() && lookups.ids.back() == token) continue;
    lookups.ids.push_back(token);
    lookups.begins.push_back(i);
  }
  lookups.begins.push_back(static_cast<std::uint32_t>(positions));
  return lookups;
}

/// All kinds, of n numbers.
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
