#include "worker/optim/fixed_point.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "worker/optim/norm.h"

namespace swarm::optim {
namespace {

constexpr int kFloatMagnitudeBits = 128;    // finite floats are below 2^128 ...
constexpr int kFloatFractionBits = 149;     // ... and multiples of 2^-149
constexpr int kStartMagnitudeExponent = 8;  // assumes that a sum's largest element is 2^-8

// Added to a double of at most 2^51 in magnitude, 1.5 2^52 leaves the nearest integer in the last
// bits. So vector units without an instruction for it can convert.
constexpr double kShift = 0x1.8p52;
constexpr int kShiftBits = 51;

/// log2 of the microbatches, rounded up.
int CountBits(std::uint64_t microbatches) {
  return static_cast<int>(std::bit_width(microbatches - 1));
}

void AddShifted(const float* values, double scale, std::size_t count, std::int64_t* sum) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const double shifted = static_cast<double>(values[i]) * scale + kShift;
    sum[i] += std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(kShift);
  }
}

void ToDouble(const std::int64_t* sum, std::size_t count, int magnitude_bits, double* values) {
  if (magnitude_bits <= kShiftBits) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = std::bit_cast<double>(sum[i] + std::bit_cast<std::int64_t>(kShift)) - kShift;
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(sum[i]);
  }
}

}  // namespace

int ContributionBits(std::uint64_t microbatches) { return 61 - CountBits(microbatches); }

int ClampExponent(int contribution_bits, std::int64_t exponent) {
  return static_cast<int>(std::clamp<std::int64_t>(
      exponent, contribution_bits - kFloatMagnitudeBits, kFloatFractionBits));
}

int StartExponent(int contribution_bits) {
  return contribution_bits - kHeadroomBits + kStartMagnitudeExponent;
}

int StartExponentOfSquares(std::uint64_t microbatches) {
  const int bits = ContributionBits(microbatches);
  return ClampExponent(bits,
                       StartExponent(bits) + kStartMagnitudeExponent + 2 * CountBits(microbatches));
}

int NextExponent(int contribution_bits, int exponent, int magnitude_bits) {
  return ClampExponent(contribution_bits,
                       exponent + contribution_bits - kHeadroomBits - magnitude_bits);
}

int LowerExponent(int contribution_bits, int exponent, unsigned level) {
  return ClampExponent(contribution_bits, exponent - static_cast<int>(level) * kScaleLevelBits);
}

float LargestMagnitude(std::span<const float> values) {
  // As integers, magnitudes have the order that they have as floats, with NaN above infinity.
  std::int32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(value) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

bool Fits(float largest, int exponent, int contribution_bits) {
  return std::ldexp(static_cast<double>(largest), exponent) <= std::ldexp(1.0, contribution_bits);
}

void AddQuantized(std::span<const float> values, int exponent, float largest,
                  std::span<std::int64_t> sum) {
  // Exact: a float has 24 bits, and the scale is a power of two.
  const double scale = std::ldexp(1.0, exponent);
  if (static_cast<double>(largest) * scale <= std::ldexp(1.0, kShiftBits)) {
    AddShifted(values.data(), scale, values.size(), sum.data());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum[i] += static_cast<std::int64_t>(std::nearbyint(static_cast<double>(values[i]) * scale));
  }
}

int MagnitudeBits(std::span<const std::int64_t> sum) {
  std::uint64_t bits = 0;
  for (const std::int64_t q : sum) bits |= static_cast<std::uint64_t>(q ^ (q >> 63));
  return static_cast<int>(std::bit_width(bits));
}

void Dequantize(std::span<const std::int64_t> sum, int exponent, int magnitude_bits,
                std::span<float> values) {
  const double scale = std::ldexp(1.0, -exponent);
  std::array<double, kNormBlock> block;
  for (std::size_t begin = 0; begin < sum.size(); begin += block.size()) {
    const std::size_t count = std::min(block.size(), sum.size() - begin);
    ToDouble(sum.data() + begin, count, magnitude_bits, block.data());
    float* to = values.data() + begin;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(block[i] * scale);
  }
}

double SquaredBlock(std::span<const std::int64_t> sum) {
  std::array<double, kNormBlock> block;
  ToDouble(sum.data(), sum.size(), MagnitudeBits(sum), block.data());
  return SquaredBlock(block.data(), sum.size());
}

double ScaleSquares(double squares, int exponent) { return std::ldexp(squares, -2 * exponent); }

double SquaredNorm(std::span<const std::int64_t> sum, int exponent) {
  double total = 0;
  for (std::size_t begin = 0; begin < sum.size(); begin += kNormBlock) {
    total += SquaredBlock(sum.subspan(begin, std::min(kNormBlock, sum.size() - begin)));
  }
  return ScaleSquares(total, exponent);
}

}  // namespace swarm::optim
