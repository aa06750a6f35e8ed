#include "ctl/report/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swarm::ctl {
namespace {

using testing::Contains;
using testing::ElementsAre;
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

TEST(CurveTest, TheScaleIsRoundAndShowsAllValues) {
  const std::vector<Point> points = {{0, 2.13}, {1, 5.54}};
  const Scale scale = ScaleFor(points, ScaleKind::kLinear);
  EXPECT_THAT(scale.ticks, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(scale.HeightOf(2), 0);
  EXPECT_EQ(scale.HeightOf(6), 1);
}

TEST(CurveTest, ValuesFarApartAreShownByTheirPowers) {
  const std::vector<Point> points = {{0, 0.05}, {1, 0.04}, {2, 7}};
  const Scale scale = ScaleFor(points, ScaleKind::kSpread);
  EXPECT_TRUE(scale.logarithmic);
  using testing::DoubleEq;
  EXPECT_THAT(scale.ticks, ElementsAre(DoubleEq(0.05), DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.5),
                                       DoubleEq(1), DoubleEq(2), DoubleEq(5)));
  EXPECT_GT(scale.HeightOf(0.05), 0);
  EXPECT_LT(scale.HeightOf(0.05), 0.1);
}

TEST(CurveTest, OneValueIsInTheMiddle) {
  const std::vector<Point> points = {{0, 0.5}, {1, 0.5}};
  const double height = ScaleFor(points, ScaleKind::kLinear).HeightOf(0.5);
  EXPECT_GT(height, 0.2);
  EXPECT_LT(height, 0.8);
}

TEST(CurveTest, WithoutPointsThereIsAScaleAllTheSame) {
  EXPECT_FALSE(ScaleFor({}, ScaleKind::kSpread).ticks.empty());
  EXPECT_FALSE(StepScale(0, 0).ticks.empty());
}

}  // namespace
}  // namespace swarm::ctl
