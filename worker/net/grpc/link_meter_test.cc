#include "worker/net/grpc/link_meter.h"

#include <gtest/gtest.h>

namespace swarm::net {
namespace {

using std::chrono::seconds;

class LinkMeterTest : public testing::Test {
 protected:
  /// The rate after the connection has carried so many bytes a second for a while.
  double Carry(double rate, bool filled, Duration lasts) {
    double measured = 0;
    for (Duration passed{}; passed < lasts; passed += seconds(1)) {
      now_ += seconds(1);
      measured = meter_.OnLook({now_, 0.08, rate, filled}).bytes_per_second;
    }
    return measured;
  }

  LinkMeter meter_;
  Timepoint now_{std::chrono::hours(1)};
};

TEST_F(LinkMeterTest, AConnectionThatWasNeverFilledHasNoKnownRate) {
  EXPECT_EQ(Carry(1e6, false, seconds(60)), 0);
  EXPECT_EQ(meter_.OnLook({now_, 0.08, 1e6, false}).round_trip, 0.08);
}

TEST_F(LinkMeterTest, TheRateIsTheHighestWithWhichItWasFilled) {
  Carry(1e6, true, seconds(1));
  EXPECT_EQ(Carry(9e6, true, seconds(1)), 9e6);
  EXPECT_EQ(Carry(2e6, true, seconds(5)), 9e6) << "TCP recovers from a loss";
}

TEST_F(LinkMeterTest, ALinkThatHasBecomeSlowerShowsWithinTheMemory) {
  Carry(9e6, true, seconds(5));
  EXPECT_EQ(Carry(2e6, true, LinkMeter::kMemory + seconds(1)), 2e6);
}

TEST_F(LinkMeterTest, ALinkThatIsNotUsedKeepsItsRateAndOneThatCarriesMoreRaisesIt) {
  Carry(2e6, true, seconds(5));
  EXPECT_EQ(Carry(1e3, false, seconds(600)), 2e6);
  EXPECT_EQ(Carry(5e6, false, seconds(1)), 5e6) << "at least that much";
}

}  // namespace
}  // namespace swarm::net
