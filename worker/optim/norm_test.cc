#include "worker/optim/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace swarm::optim {
namespace {

std::vector<float> RandomValues(std::size_t count) {
  Rng rng(5);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.Uniform() - 0.5);
  return values;
}

TEST(NormTest, IsTheSumOfSquaresAtEverySizeAroundLanesAndBlocks) {
  for (const std::size_t count : {0UL, 1UL, 15UL, 16UL, 17UL, 4095UL, 4096UL, 4097UL, 12345UL}) {
    const std::vector<float> values = RandomValues(count);
    long double expected = 0;
    for (const float value : values) expected += static_cast<long double>(value) * value;
    EXPECT_NEAR(SquaredNorm(values), static_cast<double>(expected), 1e-12 * (1 + count)) << count;
  }
}

TEST(NormTest, HasTheDocumentedOrderOfSummation) {
  const std::vector<float> values = RandomValues(2 * kNormBlock + 100);
  double expected = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kNormBlock) {
    double lanes[16] = {};
    for (std::size_t i = begin; i < std::min(begin + kNormBlock, values.size()); ++i) {
      lanes[(i - begin) % 16] += double{values[i]} * double{values[i]};
    }
    double block = 0;
    for (const double lane : lanes) block += lane;
    expected += block;
  }
  EXPECT_EQ(SquaredNorm(values), expected);
}

TEST(NormTest, DoesNotDependOnAlignment) {
  const std::vector<float> values = RandomValues(10000);
  std::vector<float> shifted(values.size() + 1);
  std::copy(values.begin(), values.end(), shifted.begin() + 1);
  EXPECT_EQ(SquaredNorm(values), SquaredNorm(std::span(shifted).subspan(1)));
}

TEST(NormTest, ShowsThatAValueIsNotFinite) {
  std::vector<float> values(100, 1.0F);
  values[50] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(SquaredNorm(values)));
  values[50] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(SquaredNorm(values)));
}

}  // namespace
}  // namespace swarm::optim
