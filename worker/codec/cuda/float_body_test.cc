// Narrow floats: every code of both formats, and every place between two of them.
#include "worker/codec/cuda/float_body.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/testing/cases.h"

namespace swarm::codec::cuda {
namespace {

struct BFloat16 {
  using To = ToBFloat16;
  using From = FromBFloat16;
  static constexpr int kFractionBits = 7, kExponentMax = 127;
};

struct Float16 {
  using To = ToFloat16;
  using From = FromFloat16;
  static constexpr int kFractionBits = 10, kExponentMax = 15;
};

template <typename Format>
class Narrow : public testing::Test {
 protected:
  static constexpr unsigned kInfinityCode = ((1u << (15 - Format::kFractionBits)) - 1)
                                            << Format::kFractionBits;

  /// The number of a code without a sign, by the definition of the format. What would come after
  /// the largest number, for infinity.
  static double NumberOf(unsigned code) {
    const int exponent = static_cast<int>(code >> Format::kFractionBits);
    const unsigned fraction = code & ((1u << Format::kFractionBits) - 1);
    const unsigned hidden = exponent == 0 ? 0 : 1u << Format::kFractionBits;
    return std::ldexp(hidden + fraction,
                      std::max(exponent, 1) - Format::kExponentMax - Format::kFractionBits);
  }
  static unsigned Encode(double value) { return typename Format::To()(static_cast<float>(value)); }
  static float Decode(unsigned code) {
    return typename Format::From()(static_cast<std::uint16_t>(code));
  }
};
using Formats = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Narrow, Formats);

TYPED_TEST(Narrow, EveryCodeIsItsNumber) {
  for (unsigned code = 0; code < this->kInfinityCode; ++code) {
    ASSERT_EQ(this->Decode(code), this->NumberOf(code)) << code;
    ASSERT_EQ(this->Decode(code | 0x8000), -this->NumberOf(code)) << code;
    ASSERT_TRUE(std::signbit(this->Decode(code | 0x8000))) << code;
  }
  EXPECT_EQ(this->Decode(this->kInfinityCode), INFINITY);
  EXPECT_EQ(this->Decode(this->kInfinityCode | 0x8000), -INFINITY);
  for (unsigned code = this->kInfinityCode + 1; code < 0x8000; ++code) {
    ASSERT_TRUE(std::isnan(this->Decode(code))) << code;
  }
}

TYPED_TEST(Narrow, EveryNumberIsRoundedToTheNearestAndHalfwayToTheEven) {
  for (unsigned code = 0; code < this->kInfinityCode; ++code) {
    const double number = this->NumberOf(code), next = this->NumberOf(code + 1);
    const auto middle = static_cast<float>((number + next) / 2);
    ASSERT_EQ(middle, (number + next) / 2);
    for (const unsigned sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1 : -1;
      ASSERT_EQ(this->Encode(s * number), sign | code);
      ASSERT_EQ(this->Encode(s * std::nextafter(middle, 0.0f)), sign | code) << middle;
      ASSERT_EQ(this->Encode(s * middle), sign | (code + code % 2)) << middle;
      ASSERT_EQ(this->Encode(s * std::nextafter(middle, INFINITY)), sign | (code + 1)) << middle;
    }
  }
}

TYPED_TEST(Narrow, WhatIsNotFiniteStaysSo) {
  EXPECT_EQ(this->Encode(INFINITY), this->kInfinityCode);
  EXPECT_EQ(this->Encode(-INFINITY), this->kInfinityCode | 0x8000);
  EXPECT_EQ(this->Encode(std::numeric_limits<float>::max()), this->kInfinityCode);
  for (const std::uint32_t bits :
       {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(bits);
    ASSERT_TRUE(std::isnan(this->Decode(typename TypeParam::To()(nan)))) << bits;
  }
}

TYPED_TEST(Narrow, PacksGiveWhatSingleNumbersDo) {
  for (const std::size_t n : {1, 3, 4, 5, 1023}) {
    alignas(16) float x[1024];
    std::ranges::copy(WideNumbers(n, 1), x);
    alignas(16) std::uint16_t halves[1024] = {};
    alignas(16) float back[1024] = {};
    for (std::size_t i = 0; i * 4 < n; ++i) {
      ApplyToPack<4>(x, n, halves, typename TypeParam::To(), i);
      ApplyToPack<4>(halves, n, back, typename TypeParam::From(), i);
    }
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(halves[i], this->Encode(x[i])) << i << " of " << n;
      ASSERT_EQ(back[i], this->Decode(halves[i])) << i << " of " << n;
    }
    EXPECT_EQ(halves[n], 0);
  }
}

}  // namespace
}  // namespace swarm::codec::cuda
