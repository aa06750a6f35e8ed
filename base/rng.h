// Pseudo-random numbers as functions of their keys. There is no shared state, so another machine
// draws the same values from the same key: data order, initial weights and routes rely on this.
#pragma once

#include <cstdint>
#include <string_view>

namespace swarm {

/// A fixed bijection of 64 bits that mixes well (the finalizer of SplitMix64; Steele et al. 2014).
constexpr std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A key made of the parts, in order.
template <typename... Parts>
constexpr std::uint64_t MixAll(std::uint64_t first, Parts... rest) {
  std::uint64_t key = Mix(first);
  ((key = Mix(key ^ static_cast<std::uint64_t>(rest))), ...);
  return key;
}

/// A key from a name (FNV-1a, then mixed).
constexpr std::uint64_t MixName(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = 0xcbf29ce484222325ULL ^ Mix(seed);
  for (const char c : name) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return Mix(key);
}

/// A sequence of 64-bit values fixed by its key; satisfies UniformRandomBitGenerator.
class Rng {
 public:
  using result_type = std::uint64_t;
  explicit Rng(std::uint64_t key) : key_(key) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() { return MixAll(key_, counter_++); }

  /// Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  std::uint64_t Below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }
  /// Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace swarm
