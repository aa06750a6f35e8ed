// Numbers with few digits, for people.
#pragma once

#include <cmath>

namespace swarm::plan {

/// Rounds to so many significant digits.
inline double Rounded(double value, int digits) {
  if (value == 0) return 0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace swarm::plan
