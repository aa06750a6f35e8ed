// Numbers for the tests of this folder.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace swarm::codec::testing {

inline std::vector<float> Normal(std::size_t n, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

}  // namespace swarm::codec::testing
