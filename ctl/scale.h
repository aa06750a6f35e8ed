// How the values of a picture become places, and which of them are written beside it. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace swarm::ctl {

/// How values become heights.
struct Scale {
  double low = 0, high = 1;  ///< of the values; low < high
  bool logarithmic = false;
  std::vector<double> ticks;  ///< round values from low to high, ascending

  /// 0 at low, 1 at high.
  double HeightOf(double value) const;
};

enum class ScaleKind {
  kLinear,
  kFromZero,  ///< linear, and 0 is shown
  kSpread,    ///< logarithmic where the values are above 0 and far apart
};

/// A scale that shows all finite values. Without values: from 0 to 1.
Scale ScaleFor(std::span<const double> values, ScaleKind kind);

/// A logarithmic scale with just these ends, which are above 0; around `low`, if that is `high`.
Scale LogScale(double low, double high);

/// A scale of steps, which begin at `first`.
Scale StepScale(double first, double last);

/// "0.0025", "1e-05", "120": as short as the value can be told from its neighbours.
std::string TickText(double value);

}  // namespace swarm::ctl
