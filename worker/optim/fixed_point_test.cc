#include "worker/optim/fixed_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "worker/optim/norm.h"

namespace swarm::optim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargestFloat = std::numeric_limits<float>::max();

/// Values whose magnitudes span many powers of two.
std::vector<float> WideValues(std::size_t count, std::uint64_t seed, double bits) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>((rng.Uniform() - 0.5) * std::exp2(-bits * rng.Uniform()));
  }
  return values;
}

void Add(std::span<const float> values, int exponent, std::vector<std::int64_t>& sum) {
  AddQuantized(values, exponent, LargestMagnitude(values), sum);
}

TEST(FixedPointTest, ASumHasTheSameBitsInEveryOrderAndGrouping) {
  constexpr std::size_t kCount = 1000, kMicrobatches = 12;
  std::vector<std::vector<float>> contributions;
  for (std::size_t m = 0; m < kMicrobatches; ++m) {
    contributions.push_back(WideValues(kCount, m, 60));
  }
  const int exponent = StartExponent(ContributionBits(kMicrobatches));
  std::vector<std::int64_t> expected(kCount);
  for (const auto& contribution : contributions) Add(contribution, exponent, expected);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    for (std::size_t i = kMicrobatches; i > 1; --i) {
      std::swap(contributions[i - 1], contributions[rng.Below(i)]);
    }
    std::vector<std::vector<std::int64_t>> replicas(1 + rng.Below(5),
                                                    std::vector<std::int64_t>(kCount));
    for (const auto& contribution : contributions) {
      Add(contribution, exponent, replicas[rng.Below(replicas.size())]);
    }
    std::vector<std::int64_t> sum(kCount);
    for (const auto& replica : replicas) {
      std::ranges::transform(sum, replica, sum.begin(), std::plus());
    }
    ASSERT_EQ(sum, expected) << "seed " << seed;
  }
}

TEST(FixedPointTest, RoundsToTheNearestAndHalfwayToTheEvenInteger) {
  const std::vector<float> values{0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.75F, -2.25F, 1e-30F, -0.0F};
  std::vector<std::int64_t> sum(values.size());
  Add(values, 0, sum);
  EXPECT_EQ(sum, (std::vector<std::int64_t>{0, 2, 2, 0, -2, 1, -2, 0, 0}));
}

TEST(FixedPointTest, LargeAndSmallNumbersTakeTheSameRounding) {
  // A large element makes the whole tensor go the other way through the code.
  std::vector<float> values = WideValues(1000, 3, 20);
  std::vector<std::int64_t> small(values.size()), large(values.size() + 1);
  Add(values, 40, small);
  values.push_back(0x1p20F);
  Add(values, 40, large);
  EXPECT_EQ(large.back(), std::int64_t{1} << 60);
  large.pop_back();
  EXPECT_EQ(large, small);
}

TEST(FixedPointTest, TheBoundIsOneOfTheContributionAlone) {
  const int bits = ContributionBits(16);
  EXPECT_EQ(bits, 57);
  EXPECT_TRUE(Fits(std::ldexp(1.0F, bits - 10), 10, bits));
  EXPECT_FALSE(Fits(std::nextafter(std::ldexp(1.0F, bits - 10), kInfinity), 10, bits));
  EXPECT_EQ(ContributionBits(1), 61);
  EXPECT_EQ(ContributionBits(17), 56);
}

TEST(FixedPointTest, TwiceAsManyContributionsAtTheBoundAsMicrobatchesDoNotOverflow) {
  for (const std::uint64_t microbatches : {1, 3, 16}) {
    const int bits = ContributionBits(microbatches);
    const std::vector<float> values{std::ldexp(1.0F, bits), -std::ldexp(1.0F, bits)};
    std::vector<std::int64_t> sum(2);
    for (std::uint64_t m = 0; m < 2 * microbatches; ++m) Add(values, 0, sum);
    EXPECT_EQ(sum[0], static_cast<std::int64_t>(2 * microbatches) << bits);
    EXPECT_EQ(sum[1], -sum[0]);
    EXPECT_LE(MagnitudeBits(sum), 63);
  }
}

TEST(FixedPointTest, AtTheHighestScaleLevelEveryFloatFits) {
  for (const std::uint64_t microbatches : {1ULL, 16ULL, 1ULL << 20}) {
    const int bits = ContributionBits(microbatches);
    const int highest = ClampExponent(bits, 1000);
    EXPECT_FALSE(Fits(kLargestFloat, highest, bits));
    EXPECT_TRUE(Fits(kLargestFloat, LowerExponent(bits, highest, kScaleLevelMax), bits));
  }
}

TEST(FixedPointTest, TheNextExponentLeavesTheHeadroom) {
  const int bits = ContributionBits(8);
  for (const float largest : {1e-20F, 3e-5F, 0.7F, 4e8F}) {
    std::vector<std::int64_t> sum(1);
    const int first = ClampExponent(bits, bits - 40 - std::ilogb(largest));
    Add(std::vector{largest}, first, sum);
    const int next = NextExponent(bits, first, MagnitudeBits(sum));
    EXPECT_TRUE(Fits(largest * 0x1p20F, next, bits)) << largest;
    EXPECT_FALSE(Fits(largest * 0x1p22F, next, bits)) << largest;
  }
}

TEST(FixedPointTest, SquaresOfWeightedContributionsDoNotStartAsZeros) {
  for (const std::uint64_t microbatches : {1ULL, 16ULL, 1ULL << 16, 1ULL << 20}) {
    const int bits = ContributionBits(microbatches);
    const int exponent = StartExponentOfSquares(microbatches);
    const float weighted = 0x1p-8F / static_cast<float>(microbatches);
    const std::vector<float> square{weighted * weighted};
    EXPECT_TRUE(Fits(square[0], exponent, bits));
    std::vector<std::int64_t> sum(1);
    Add(square, exponent, sum);
    EXPECT_EQ(MagnitudeBits(sum), bits - kHeadroomBits + 1) << microbatches;
  }
  std::vector<std::int64_t> sum(1);
  Add(std::vector{0x1p-56F}, StartExponent(ContributionBits(1 << 20)), sum);
  EXPECT_EQ(sum[0], 0) << "what the other exponent would give";
}

TEST(FixedPointTest, GivesBackTheValuesToTheResolutionThatTheHeaderStates) {
  const std::vector<float> values = WideValues(10000, 9, 50);
  const int bits = ContributionBits(16);
  const int exponent =
      NextExponent(bits, 0, std::ilogb(LargestMagnitude(values)) + 1);  // after a sum like these
  std::vector<std::int64_t> sum(values.size());
  Add(values, exponent, sum);
  std::vector<float> back(values.size());
  Dequantize(sum, exponent, MagnitudeBits(sum), back);
  const double largest = LargestMagnitude(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(back[i], values[i], 0x1p-37 * largest);
    if (std::abs(values[i]) > 0x1p-13 * largest) {
      ASSERT_EQ(back[i], values[i]);
    }
  }
}

TEST(FixedPointTest, DequantizesAlikeWhateverIsKnownOfTheMagnitude) {
  std::vector<std::int64_t> sum;
  Rng rng(4);
  for (int i = 0; i < 5000; ++i) {
    sum.push_back(static_cast<std::int64_t>((rng.Uniform() - 0.5) * 0x1p50));
  }
  std::vector<float> narrow(sum.size()), wide(sum.size());
  Dequantize(sum, 33, MagnitudeBits(sum), narrow);
  Dequantize(sum, 33, 63, wide);
  EXPECT_EQ(narrow, wide);
}

TEST(FixedPointTest, CountsMagnitudeBits) {
  EXPECT_EQ(MagnitudeBits({}), 0);
  const auto bits = [](std::int64_t q) { return MagnitudeBits(std::vector<std::int64_t>{0, q}); };
  EXPECT_EQ(bits(0), 0);
  EXPECT_EQ(bits(1), 1);
  EXPECT_EQ(bits(-1), 0);
  EXPECT_EQ(bits(-2), 1);
  EXPECT_EQ(bits(255), 8);
  EXPECT_EQ(bits(-257), 9);
}

TEST(FixedPointTest, TheNormIsThatOfTheValues) {
  std::vector<float> values = WideValues(2 * kNormBlock + 77, 5, 10);
  std::vector<std::int64_t> sum(values.size());
  Add(values, 30, sum);
  Dequantize(sum, 30, 63, values);
  EXPECT_EQ(SquaredNorm(sum, 30), SquaredNorm(values)) << "of 31 bits all are kept, in one order";
}

TEST(FixedPointTest, TheLargestMagnitudeShowsWhatIsNotFinite) {
  EXPECT_EQ(LargestMagnitude({}), 0);
  EXPECT_EQ(LargestMagnitude(std::vector{1.0F, -3.0F, 2.0F}), 3);
  EXPECT_EQ(LargestMagnitude(std::vector{1.0F, -kInfinity, 2.0F}), kInfinity);
  for (const float nan : {kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(LargestMagnitude(std::vector{kInfinity, nan, 2.0F})));
  }
}

}  // namespace
}  // namespace swarm::optim
