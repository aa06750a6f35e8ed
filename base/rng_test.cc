#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace swarm {
namespace {

TEST(RngTest, TheSameKeyGivesTheSameSequenceAndAnotherKeyAnother) {
  Rng a(7), b(7), c(8);
  for (int i = 0; i < 100; ++i) {
    const auto x = a();
    EXPECT_EQ(x, b());
    EXPECT_NE(x, c());
  }
}

TEST(RngTest, BelowIsUniform) {
  Rng rng(MixName(1, "uniform"));
  std::array<int, 10> count{};
  for (int i = 0; i < 100000; ++i) ++count.at(rng.Below(10));
  for (const int n : count) EXPECT_NEAR(n, 10000, 500);  // 5 standard deviations
}

}  // namespace
}  // namespace swarm
