#include "base/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swarm {
namespace {

using testing::Contains;
using testing::SizeIs;

std::vector<Point> Wave(std::size_t count) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    points.push_back({static_cast<double>(i), std::sin(0.01 * static_cast<double>(i))});
  }
  return points;
}

TEST(CurveTest, AShortCurveStaysAsItIs) { EXPECT_EQ(Thin(Wave(40), 10), Wave(40)); }

TEST(CurveTest, ALongCurveKeepsItsEndsAndEachPeak) {
  auto points = Wave(10'000);
  points[4321].value = 100;
  points[8765].value = -100;
  const auto thinned = Thin(points, 50);
  EXPECT_LE(thinned.size(), 200u);
  EXPECT_EQ(thinned.front(), points.front());
  EXPECT_EQ(thinned.back(), points.back());
  EXPECT_THAT(thinned, Contains(points[4321]));
  EXPECT_THAT(thinned, Contains(points[8765]));
  for (std::size_t i = 1; i < thinned.size(); ++i) EXPECT_LT(thinned[i - 1].step, thinned[i].step);
}

TEST(CurveTest, ValuesThatAreNotFiniteAreLeftOut) {
  auto points = Wave(3);
  points[1].value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Thin(points, 10), SizeIs(2));
}

}  // namespace
}  // namespace swarm
