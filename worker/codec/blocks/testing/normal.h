// Numbers for tests of codes.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace swarm::codec {

inline std::vector<float> NormalNumbers(std::size_t n, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

}  // namespace swarm::codec
