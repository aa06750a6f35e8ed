#include "base/dollars.h"

#include <cmath>
#include <cstdio>

namespace swarm {

std::string DollarText(double dollars) {
  constexpr double kSmall = 0.1, kLeast = 0.0001;
  if (!std::isfinite(dollars) || dollars < 0) return "-";
  if (dollars > 0 && dollars < kLeast) return "<$0.0001";
  char text[64];
  const bool small = dollars > 0 && dollars < kSmall;
  const int length = std::snprintf(text, sizeof text, small ? "$%.4f" : "$%.2f", dollars);
  return length < static_cast<int>(sizeof text) ? text : "-";
}

}  // namespace swarm
