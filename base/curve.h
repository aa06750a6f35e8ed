// A curve over the steps, thinned to what a picture can show. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace swarm {

struct Point {
  double step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

/// At most 4 * `buckets` points that look the same: of each bucket of steps its first and last
/// point, its least and its greatest value, in their order. Fewer points stay as they are. Points
/// that are not finite are left out.
std::vector<Point> Thin(std::span<const Point> points, std::size_t buckets);

}  // namespace swarm
