// The bodies of the kernels for sums and norms, run on the host, against worker/optim: bit for bit.
#include "worker/codec/cuda/sum_body.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/on_host.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::codec::cuda {
namespace {

constexpr LaneOrder kOrders[] = {LaneOrder::kUp, LaneOrder::kDown};
constexpr std::size_t kSizes[] = {1, 3, 4, 17, 255, 4095, 4096, 4097, 8200, 140000};

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::vector<std::int64_t> Integers(std::size_t n, int bits) {
  std::mt19937_64 random(n);
  std::vector<std::int64_t> values(n);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random()) >> (63 - bits);
  return values;
}

TEST(SumBodies, AddFloatsAsTheyStand) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> values = WideNumbers(n, 1), start = NormalNumbers(n, 2, 1e-20f);
    std::vector<float> singles = start, packs = start, expected = start;
    for (std::size_t i = 0; i < n; ++i) expected[i] += values[i];
    ApplyOnHost<1>(values.data(), n, singles.data(), AddFloat());
    ApplyOnHost<4>(values.data(), n, packs.data(), AddFloat());
    ASSERT_TRUE(SameBits(singles, expected)) << n;
    ASSERT_TRUE(SameBits(packs, expected)) << n;
  }
}

TEST(SumBodies, AddBFloat16sAsTheFloatsThatTheyAre) {
  constexpr std::size_t kNumbers = 1001;
  std::vector<std::uint16_t> halves(kNumbers);
  std::vector<float> sum = NormalNumbers(kNumbers, 2), expected = sum;
  const std::vector<float> values = NormalNumbers(kNumbers, 3);
  for (std::size_t i = 0; i < kNumbers; ++i) {
    halves[i] = ToBFloat16()(values[i]);
    expected[i] += FromBFloat16()(halves[i]);
  }
  ApplyOnHost<4>(halves.data(), kNumbers, sum.data(), AddBFloat16());
  EXPECT_TRUE(SameBits(sum, expected));
}

TEST(SumBodies, AddTheRowsOfATableInTheOrderOfTheirPositions) {
  for (const std::size_t width : {1, 31, 32, 33, 100}) {
    constexpr std::int64_t kVocab = 50;
    const Lookups lookups = SomeLookups(300, kVocab, 1);
    const std::vector<float> values = WideNumbers(300 * width, 4);
    const std::vector<float> start = NormalNumbers(kVocab * width, 5);
    std::vector<float> expected = start;
    for (std::size_t i = 0; i < lookups.tokens.size(); ++i) {
      float* row = expected.data() + static_cast<std::size_t>(lookups.tokens[i]) * width;
      for (std::size_t d = 0; d < width; ++d) row[d] += values[i * width + d];
    }
    for (const LaneOrder order : kOrders) {
      std::vector<float> table = start;
      AddRowsOnHost(order, values.data(), {lookups.ids.data(), lookups.ids.size(), width},
                    lookups.order.data(), lookups.begins.data(), table.data());
      ASSERT_TRUE(SameBits(table, expected)) << width;
    }
  }
}

TEST(SumBodies, AddTheIntegersOfExactSums) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n), 1e-3f);
    const float largest = optim::LargestMagnitude(values);
    // From integers that are all zero over the two ways of the CPU to those that just fit.
    for (const int bits : {-3, 1, 20, 50, 51, 52, 61}) {
      const int exponent = bits - std::ilogb(largest) - 1;
      std::vector<std::int64_t> expected = Integers(n, 61), singles = expected, packs = expected;
      optim::AddQuantized(values, exponent, largest, expected);
      const AddQuantizedFloat add{std::ldexp(1.0, exponent)};
      ApplyOnHost<1>(values.data(), n, singles.data(), add);
      ApplyOnHost<4>(values.data(), n, packs.data(), add);
      ASSERT_EQ(singles, expected) << n << " numbers, " << bits << " bits";
      ASSERT_EQ(packs, expected) << n << " numbers, " << bits << " bits";
    }
  }
}

TEST(SumBodies, RoundHalvesOfExactSumsToTheEven) {
  const std::vector<float> values = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0x1p-149f, -0.0f, 0x1.8p22f};
  std::vector<std::int64_t> sum(values.size()), expected = sum;
  optim::AddQuantized(values, 0, 0x1.8p22f, expected);
  ApplyOnHost<4>(values.data(), values.size(), sum.data(), AddQuantizedFloat{1.0});
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(sum, (std::vector<std::int64_t>{0, 2, 2, 0, -2, 0, 0, 0x600000}));
}

TEST(SumBodies, AddTheIntegersOfATablesRows) {
  constexpr std::size_t kWidth = 40, kVocab = 50;
  const Lookups lookups = SomeLookups(60, kVocab, 2);
  const std::vector<float> values = NormalNumbers(lookups.ids.size() * kWidth, 6);
  const float largest = optim::LargestMagnitude(values);
  const std::vector<std::int64_t> start = Integers(kVocab * kWidth, 40);
  std::vector<std::int64_t> expected = start;
  for (std::size_t u = 0; u < lookups.ids.size(); ++u) {
    optim::AddQuantized(
        std::span(values).subspan(u * kWidth, kWidth), 30, largest,
        std::span(expected).subspan(static_cast<std::size_t>(lookups.ids[u]) * kWidth, kWidth));
  }
  for (const LaneOrder order : kOrders) {
    std::vector<std::int64_t> table = start;
    AddQuantizedRowsOnHost(order, values.data(), {lookups.ids.data(), lookups.ids.size(), kWidth},
                           30, table.data());
    EXPECT_EQ(table, expected);
  }
}

TEST(SumBodies, MeasureAsTheCpuDoes) {
  for (const std::size_t n : kSizes) {
    for (const std::vector<float>& values : NumbersOfAllKinds(n)) {
      const float largest = optim::LargestMagnitude(values);
      for (const LaneOrder order : kOrders) {
        ASSERT_EQ(LargestMagnitudeOnHost(order, values), std::bit_cast<std::uint32_t>(largest));
      }
    }
    for (const int bits : {1, 31, 32, 50, 51, 62}) {
      const std::vector<std::int64_t> sum = Integers(n, bits);
      for (const LaneOrder order : kOrders) {
        ASSERT_EQ(std::bit_width(MagnitudeBitsOnHost(order, sum)), optim::MagnitudeBits(sum));
      }
    }
  }
}

TEST(SumBodies, ReadExactSumsAsTheCpuDoes) {
  for (const std::size_t n : kSizes) {
    for (const int bits : {1, 24, 25, 50, 51, 52, 53, 54, 62}) {
      std::vector<std::int64_t> sum = Integers(n, bits);
      if (bits > 60) sum[0] = (1LL << 60) + (1LL << 36) + 1;  // halfway, once it is a double
      for (const int exponent : {-60, 0, 31, 149}) {
        std::vector<float> expected(n), values(n);
        optim::Dequantize(sum, exponent, optim::MagnitudeBits(sum), expected);
        ApplyOnHost<4>(sum.data(), n, values.data(), ToFloat{std::ldexp(1.0, -exponent)});
        ASSERT_TRUE(SameBits(values, expected)) << n << " of " << bits << " bits";
      }
    }
  }
}

TEST(SumBodies, NormsHaveTheBitsOfTheCpu) {
  for (const std::size_t n : kSizes) {
    for (const LaneOrder order : kOrders) {
      for (const std::vector<float>& values : NumbersOfAllKinds(n)) {
        const double expected = optim::SquaredNorm(values),
                     norm = SquaredNormOnHost(order, values, 0);
        ASSERT_EQ(std::isnan(norm), std::isnan(expected)) << n;
        if (std::isnan(norm)) continue;
        ASSERT_EQ(norm, expected) << n;
      }
      for (const int bits : {1, 40, 51, 52, 62}) {
        const std::vector<std::int64_t> sum = Integers(n, bits);
        ASSERT_EQ(SquaredNormOnHost(order, sum, 33), optim::SquaredNorm(sum, 33)) << n;
      }
    }
  }
  EXPECT_EQ(SquaredNormOnHost(LaneOrder::kUp, std::vector<float>(), 0), 0);
}

}  // namespace
}  // namespace swarm::codec::cuda
