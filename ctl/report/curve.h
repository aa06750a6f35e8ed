// A curve over the steps, thinned to what a picture can show, and the scale of its values. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace swarm::ctl {

struct Point {
  double step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

/// At most 4 * `buckets` points that look the same: of each bucket of steps its first and last
/// point, its least and its greatest value, in their order. Fewer points stay as they are. Points
/// that are not finite are left out.
std::vector<Point> Thin(std::span<const Point> points, std::size_t buckets);

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

/// A scale that shows all values of the finite points. Without points: from 0 to 1.
Scale ScaleFor(std::span<const Point> points, ScaleKind kind);

/// The same of steps, which begin at `first`.
Scale StepScale(double first, double last);

/// "0.0025", "1e-05", "120": as short as the value can be told from its neighbours.
std::string TickText(double value);

}  // namespace swarm::ctl
