#include "base/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace swarm {
namespace {

void AddBucket(std::span<const Point> bucket, std::vector<Point>* thinned) {
  const auto [least, greatest] =
      std::minmax_element(bucket.begin(), bucket.end(),
                          [](const Point& a, const Point& b) { return a.value < b.value; });
  std::array<const Point*, 4> kept{&bucket.front(), &*least, &*greatest, &bucket.back()};
  std::sort(kept.begin(), kept.end());
  const auto end = std::unique(kept.begin(), kept.end());
  for (auto it = kept.begin(); it != end; ++it) thinned->push_back(**it);
}

}  // namespace

std::vector<Point> Thin(std::span<const Point> points, std::size_t buckets) {
  std::vector<Point> finite;
  std::copy_if(points.begin(), points.end(), std::back_inserter(finite), [](const Point& point) {
    return std::isfinite(point.step) && std::isfinite(point.value);
  });
  if (finite.size() <= 4 * buckets) return finite;
  const std::span<const Point> all(finite);
  std::vector<Point> thinned;
  for (std::size_t i = 0; i < buckets; ++i) {
    const std::size_t begin = all.size() * i / buckets, end = all.size() * (i + 1) / buckets;
    AddBucket(all.subspan(begin, end - begin), &thinned);
  }
  return thinned;
}

}  // namespace swarm
