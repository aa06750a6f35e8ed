// The kernels for floats, sums and norms on a device, against the host: bit for bit. Skipped where
// there is no device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/device.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::codec::cuda {
namespace {

constexpr std::size_t kSizes[] = {1, 3, 17, 4095, 4097, 140000, 1000003};

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class SumKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoDevice(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(SumKernels, RoundEveryFloatAsTheHostDoes) {
  for (const std::size_t n : kSizes) {
    for (const std::vector<float>& x : NumbersOfAllKinds(n)) {
      std::vector<std::uint16_t> bfloats(n), halves(n);
      std::ranges::transform(x, bfloats.begin(), ToBFloat16());
      std::ranges::transform(x, halves.begin(), ToFloat16());
      const OnDevice<float> from(x), back(n);
      const OnDevice<std::uint16_t> to(n);
      ASSERT_TRUE(EncodeBFloat16(from.get(), n, to.get(), nullptr).ok());
      ASSERT_EQ(to.Read(), bfloats) << n;
      ASSERT_TRUE(EncodeFloat16(from.get(), n, to.get(), nullptr).ok());
      ASSERT_EQ(to.Read(), halves) << n;
    }
  }
}

TEST_F(SumKernels, ReadEveryCodeOfNarrowFloatsAsTheHostDoes) {
  std::vector<std::uint16_t> codes(65536);
  std::iota(codes.begin(), codes.end(), std::uint16_t{0});
  std::vector<float> bfloats(codes.size()), halves(codes.size());
  std::ranges::transform(codes, bfloats.begin(), FromBFloat16());
  std::ranges::transform(codes, halves.begin(), FromFloat16());
  const OnDevice<std::uint16_t> from(codes);
  const OnDevice<float> to(codes.size());
  ASSERT_TRUE(DecodeBFloat16(from.get(), codes.size(), to.get(), nullptr).ok());
  EXPECT_TRUE(SameBits(to.Read(), bfloats));
  ASSERT_TRUE(DecodeFloat16(from.get(), codes.size(), to.get(), nullptr).ok());
  EXPECT_TRUE(SameBits(to.Read(), halves));
}

TEST_F(SumKernels, AddFloatsAlsoWhereMemoryIsNotAligned) {
  for (const std::size_t skipped : {0, 1, 4}) {
    constexpr std::size_t kNumbers = 10007;
    const std::vector<float> values = WideNumbers(kNumbers, 1);
    std::vector<float> expected = NormalNumbers(kNumbers, 2, 1e-20f);
    const OnDevice<float> from(values), sum(expected);
    for (std::size_t i = skipped; i < kNumbers; ++i) expected[i] += values[i];
    ASSERT_TRUE(
        AddFloats(from.get() + skipped, kNumbers - skipped, sum.get() + skipped, nullptr).ok());
    EXPECT_TRUE(SameBits(sum.Read(), expected)) << skipped;
  }
}

TEST_F(SumKernels, AddTheRowsOfATableInTheOrderOfTheirPositions) {
  constexpr std::int64_t kVocab = 500;
  constexpr std::size_t kPositions = 3000, kWidth = 100;
  const Lookups lookups = SomeLookups(kPositions, kVocab, 1);
  const std::vector<float> values = WideNumbers(kPositions * kWidth, 4);
  std::vector<float> expected = NormalNumbers(kVocab * kWidth, 5);
  const OnDevice<float> from(values), table(expected);
  const OnDevice<std::int64_t> ids(lookups.ids);
  const OnDevice<std::uint32_t> order(lookups.order), begins(lookups.begins);
  for (std::size_t i = 0; i < kPositions; ++i) {
    float* row = expected.data() + static_cast<std::size_t>(lookups.tokens[i]) * kWidth;
    for (std::size_t d = 0; d < kWidth; ++d) row[d] += values[i * kWidth + d];
  }
  ASSERT_TRUE(AddRows(from.get(), {ids.get(), lookups.ids.size(), kWidth}, order.get(),
                      begins.get(), table.get(), nullptr)
                  .ok());
  EXPECT_TRUE(SameBits(table.Read(), expected));
}

TEST_F(SumKernels, MakeTheExactSumsOfTheCpu) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> values = NormalNumbers(n, static_cast<unsigned>(n), 1e-3f);
    const float largest = optim::LargestMagnitude(values);
    const OnDevice<float> from(values), back(n);
    const OnDevice<std::uint32_t> bits_of_largest(std::vector{0u});
    ASSERT_TRUE(RaiseToLargestMagnitude(from.get(), n, bits_of_largest.get(), nullptr).ok());
    ASSERT_EQ(bits_of_largest.Read()[0], std::bit_cast<std::uint32_t>(largest));
    for (const int bits : {1, 20, 51, 61}) {
      const int exponent = bits - std::ilogb(largest) - 1;
      std::vector<std::int64_t> expected(n, -5);
      const OnDevice<std::int64_t> sum(expected);
      optim::AddQuantized(values, exponent, largest, expected);
      ASSERT_TRUE(AddQuantized(from.get(), n, exponent, sum.get(), nullptr).ok());
      ASSERT_EQ(sum.Read(), expected) << n << " numbers, " << bits << " bits";

      const OnDevice<std::uint64_t> set(std::vector<std::uint64_t>{0});
      ASSERT_TRUE(SetMagnitudeBits(sum.get(), n, set.get(), nullptr).ok());
      ASSERT_EQ(std::bit_width(set.Read()[0]), optim::MagnitudeBits(expected));

      std::vector<float> floats(n);
      optim::Dequantize(expected, exponent, optim::MagnitudeBits(expected), floats);
      ASSERT_TRUE(Dequantize(sum.get(), n, exponent, back.get(), nullptr).ok());
      ASSERT_TRUE(SameBits(back.Read(), floats)) << n << " numbers, " << bits << " bits";

      const OnDevice<double> squares(NormBlocks(n)), norm(1);
      ASSERT_TRUE(SquaredNorm(sum.get(), n, exponent, squares.get(), norm.get(), nullptr).ok());
      ASSERT_EQ(norm.Read()[0], optim::SquaredNorm(expected, exponent));
    }
  }
}

TEST_F(SumKernels, GiveNormsTheBitsOfTheCpu) {
  for (const std::size_t n : kSizes) {
    for (const std::vector<float>& values : NumbersOfAllKinds(n)) {
      const OnDevice<float> from(values);
      const OnDevice<double> squares(NormBlocks(n)), norm(1);
      ASSERT_TRUE(SquaredNorm(from.get(), n, squares.get(), norm.get(), nullptr).ok());
      const double expected = optim::SquaredNorm(values), found = norm.Read()[0];
      ASSERT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected))) << n;
    }
  }
}

}  // namespace
}  // namespace swarm::codec::cuda
