// A shuffled order of any number of things, computed place by place: no list of them is ever made.
#pragma once

#include <bit>
#include <cstdint>

#include "base/rng.h"
#include "base/status.h"

namespace swarm::data {

/// A bijection of [0, count) that its key fixes. It looks random, and a place
/// costs some dozens of multiplications and no memory.
///
/// A Feistel network (Luby and Rackoff 1988) permutes the numbers of as many bits as `count` needs:
/// each round mixes one half of the bits into the other, and can be undone. There are less than
/// twice as many such numbers as `count`. A number outside is sent through the network again until
/// it falls inside ("cycle walking", Black and Rogaway 2002), which leaves a bijection.
class Permutation {
 public:
  Permutation(std::uint64_t key, std::uint64_t count)
      : key_(key),
        count_(count),
        high_bits_(std::bit_width(count - 1) / 2),
        low_bits_(std::bit_width(count - 1) - high_bits_) {
    SWARM_CHECK(count > 0 && count <= std::uint64_t{1} << 63, "a permutation of no, or too many");
  }

  /// Requires i < count.
  std::uint64_t operator()(std::uint64_t i) const {
    SWARM_CHECK(i < count_, "a place beyond the permutation");
    do {
      i = Encrypt(i);
    } while (i >= count_);
    return i;
  }

 private:
  static constexpr std::uint64_t kRounds = 6;

  static std::uint64_t Low(std::uint64_t x, int bits) {
    return x & ((std::uint64_t{1} << bits) - 1);
  }

  std::uint64_t Encrypt(std::uint64_t x) const {
    std::uint64_t high = x >> low_bits_;
    std::uint64_t low = Low(x, low_bits_);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      high ^= Low(MixAll(key_, 2 * round, low), high_bits_);
      low ^= Low(MixAll(key_, 2 * round + 1, high), low_bits_);
    }
    return (high << low_bits_) | low;
  }

  const std::uint64_t key_;
  const std::uint64_t count_;
  const int high_bits_;
  const int low_bits_;
};

}  // namespace swarm::data
