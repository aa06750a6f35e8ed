#include "base/dollars.h"

#include <gtest/gtest.h>

#include <limits>

namespace swarm {
namespace {

TEST(DollarsTest, AnAmountHasCentsAndASmallOneMoreDigits) {
  EXPECT_EQ(DollarText(0), "$0.00");
  EXPECT_EQ(DollarText(12.345), "$12.35");
  EXPECT_EQ(DollarText(0.1), "$0.10");
  EXPECT_EQ(DollarText(0.00421), "$0.0042");
  EXPECT_EQ(DollarText(1e-6), "<$0.0001");
  EXPECT_EQ(DollarText(1e9), "$1000000000.00");
}

TEST(DollarsTest, WhatIsNoAmountIsADash) {
  EXPECT_EQ(DollarText(-1), "-");
  EXPECT_EQ(DollarText(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(DollarText(1e300), "-");
}

}  // namespace
}  // namespace swarm
