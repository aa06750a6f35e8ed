#include "base/short_time.h"

#include <gtest/gtest.h>

namespace swarm {
namespace {

TEST(ShortTimeTest, NamesTheTwoLargestUnits) {
  EXPECT_EQ(ShortTime(12.4), "12s");
  EXPECT_EQ(ShortTime(59.6), "1m00s");
  EXPECT_EQ(ShortTime(3725), "1h02m");
  EXPECT_EQ(ShortTime(-1), "-");
}

}  // namespace
}  // namespace swarm
