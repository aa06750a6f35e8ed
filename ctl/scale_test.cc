#include "ctl/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace swarm::ctl {
namespace {

using testing::ElementsAre;

TEST(ScaleTest, TheScaleIsRoundAndShowsAllValues) {
  const Scale scale = ScaleFor(std::vector{2.13, 5.54}, ScaleKind::kLinear);
  EXPECT_THAT(scale.ticks, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(scale.HeightOf(2), 0);
  EXPECT_EQ(scale.HeightOf(6), 1);
}

TEST(ScaleTest, ValuesFarApartAreShownByTheirPowers) {
  const Scale scale = ScaleFor(std::vector{0.05, 0.04, 7.0}, ScaleKind::kSpread);
  EXPECT_TRUE(scale.logarithmic);
  using testing::DoubleEq;
  EXPECT_THAT(scale.ticks, ElementsAre(DoubleEq(0.05), DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.5),
                                       DoubleEq(1), DoubleEq(2), DoubleEq(5)));
  EXPECT_GT(scale.HeightOf(0.05), 0);
  EXPECT_LT(scale.HeightOf(0.05), 0.1);
}

TEST(ScaleTest, OneValueIsInTheMiddle) {
  const double height = ScaleFor(std::vector{0.5, 0.5}, ScaleKind::kLinear).HeightOf(0.5);
  EXPECT_GT(height, 0.2);
  EXPECT_LT(height, 0.8);
}

TEST(ScaleTest, WithoutValuesThereIsAScaleAllTheSame) {
  EXPECT_FALSE(ScaleFor({}, ScaleKind::kSpread).ticks.empty());
  EXPECT_FALSE(StepScale(0, 0).ticks.empty());
}

TEST(ScaleTest, ALogarithmicScaleHasTicksAtItsEnds) {
  const Scale scale = LogScale(10, 1000);
  using testing::DoubleEq;
  EXPECT_THAT(scale.ticks, ElementsAre(DoubleEq(10), DoubleEq(20), DoubleEq(50), DoubleEq(100),
                                       DoubleEq(200), DoubleEq(500), DoubleEq(1000)));
  EXPECT_DOUBLE_EQ(scale.HeightOf(100), 0.5);
  EXPECT_DOUBLE_EQ(LogScale(3, 3).HeightOf(3), 0.5);
}

}  // namespace
}  // namespace swarm::ctl
