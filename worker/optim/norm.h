// Norms with one order of summation, so that all workers compute the same bits.
#pragma once

#include <cstddef>
#include <span>

namespace swarm::optim {

/// Elements that are summed among themselves before they join the total.
inline constexpr std::size_t kNormBlock = 4096;

/// The sum of squares, in double. Blocks of kNormBlock elements in order; within a block lane i of
/// 16 sums the elements i, i + 16, ...; the lanes are then added in order. Equal on every machine.
double SquaredNorm(std::span<const float> values);

/// The sum of squares of one block: at most kNormBlock values, float or double.
template <typename T>
double SquaredBlock(const T* values, std::size_t count);
extern template double SquaredBlock(const float* values, std::size_t count);
extern template double SquaredBlock(const double* values, std::size_t count);
inline double SquaredBlock(std::span<const float> values) {
  return SquaredBlock(values.data(), values.size());
}

}  // namespace swarm::optim
