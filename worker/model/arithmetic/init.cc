#include "worker/model/arithmetic/init.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/rng.h"

namespace swarm::model {
namespace {

/// Coefficients of atanh(s) / s in powers of s^2, the highest first.
constexpr std::array<double, 9> kAtanhSeries{1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                                             1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};

/// ln(x) for normal x > 0, to about 1e-14: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
/// ln(m) = 2 atanh((m - 1) / (m + 1)) as a series.
double Log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (const double coefficient : kAtanhSeries) sum = sum * square + coefficient;
  return 2 * s * sum + exponent * std::numbers::ln2;
}

/// -1 / (n (n - 1)) and -1 / (n (n + 1)) for n = 14, 12, ..., 2: the ratios of successive terms of
/// the series of cos and of sin(y) / y.
struct TermRatio {
  double cosine;
  double sine;
};
constexpr std::array<TermRatio, 7> kTermRatios = [] {
  std::array<TermRatio, 7> ratios{};
  for (int i = 0; i < 7; ++i) {
    const int n = 14 - 2 * i;
    ratios[i] = {-1.0 / (n * (n - 1)), -1.0 / (n * (n + 1))};
  }
  return ratios;
}();

/// (cos, sin) of an angle uniform over the circle for `turn` uniform in [0, 1): a quadrant, and an
/// angle in [-pi/4, pi/4) by Taylor series to about 1e-15.
std::pair<double, double> PointOnCircle(double turn) {
  const int quadrant = static_cast<int>(4 * turn);
  const double y = (4 * turn - quadrant - 0.5) * (std::numbers::pi / 2);
  const double square = y * y;
  double cosine = 1;
  double sine = 1;
  for (const TermRatio& ratio : kTermRatios) {
    cosine = 1 + cosine * square * ratio.cosine;
    sine = 1 + sine * square * ratio.sine;
  }
  sine *= y;
  switch (quadrant) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

/// Uniform in (0, 1): the middles of 2^52 intervals.
double OpenUniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52;
}

}  // namespace

// Box and Muller (1958): a pair of uniforms gives a pair of normals.
void FillNormal(std::uint64_t seed, std::string_view name, double deviation,
                std::span<float> values) {
  const std::uint64_t key = MixName(seed, name);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double radius = std::sqrt(-2 * Log(OpenUniform(MixAll(key, i))));
    const auto [cosine, sine] = PointOnCircle(OpenUniform(MixAll(key, i + 1)));
    values[i] = static_cast<float>(deviation * radius * cosine);
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(deviation * radius * sine);
  }
}

}  // namespace swarm::model
