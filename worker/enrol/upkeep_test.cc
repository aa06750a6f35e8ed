#include "worker/enrol/upkeep.h"

#include <gtest/gtest.h>

namespace swarm::enrol {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(UpkeepTest, ACertificateOfAnHourIsRenewedAfterThirtyToFortyMinutes) {
  EXPECT_EQ(RenewalAge(minutes(60), 0), minutes(30));
  EXPECT_GT(RenewalAge(minutes(60), 0.999), minutes(39));
  EXPECT_LT(RenewalAge(minutes(60), 0.999), minutes(40));
}

TEST(UpkeepTest, PausesDoubleUpToHalfAMinute) {
  EXPECT_EQ(RetryPause(1, 0), seconds(1));
  EXPECT_EQ(RetryPause(2, 0), seconds(2));
  EXPECT_EQ(RetryPause(5, 0), seconds(16));
  EXPECT_EQ(RetryPause(6, 0), kRetryMax);
  EXPECT_EQ(RetryPause(1'000'000, 0), kRetryMax);
  EXPECT_GE(RetryPause(1, 0.999), seconds(1) / 2);
}

}  // namespace
}  // namespace swarm::enrol
