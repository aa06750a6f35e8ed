#include "worker/optim/norm.h"

#include <algorithm>
#include <array>

namespace swarm::optim {
namespace {

// Independent lanes let the compiler use vector registers without reordering a sum.
constexpr std::size_t kLanes = 16;

}  // namespace

template <typename T>
double SquaredBlock(const T* values, std::size_t count) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}
template double SquaredBlock(const float* values, std::size_t count);
template double SquaredBlock(const double* values, std::size_t count);

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    sum += SquaredBlock(values.data() + begin, std::min(kNormBlock, values.size() - begin));
  }
  return sum;
}

}  // namespace swarm::optim
