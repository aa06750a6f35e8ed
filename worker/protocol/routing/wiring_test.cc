#include "worker/protocol/routing/wiring.h"

#include <gtest/gtest.h>

#include <map>

namespace swarm::protocol {
namespace {

const WorkerId kA("a"), kB("b"), kC("c");
bool Anyone(const WorkerId&) { return true; }

std::map<WorkerId, int> CountPicks(Wiring& wiring, int picks) {
  std::map<WorkerId, int> count;
  for (int i = 0; i < picks; ++i) ++count[*wiring.Pick(Anyone)];
  return count;
}

TEST(WiringTest, SharesAreProportionalToSpeed) {
  Wiring wiring(1);
  wiring.SetMembers({kA, kB, kC});
  for (int i = 0; i < 50; ++i) {
    wiring.Measure(kA, 1.0);
    wiring.Measure(kB, 1.0);
    wiring.Measure(kC, 3.0);  // three times slower
  }
  const auto count = CountPicks(wiring, 700);
  EXPECT_NEAR(count.at(kA), 300, 2);
  EXPECT_NEAR(count.at(kB), 300, 2);
  EXPECT_NEAR(count.at(kC), 100, 2);
}

TEST(WiringTest, UnmeasuredWorkersShareEqually) {
  Wiring wiring(1);
  wiring.SetMembers({kA, kB});
  const auto count = CountPicks(wiring, 100);
  EXPECT_EQ(count.at(kA), 50);
}

TEST(WiringTest, NobodyIsPickedWhenNobodyIsAdmissible) {
  Wiring wiring(1);
  wiring.SetMembers({kA});
  EXPECT_FALSE(wiring.Pick([](const WorkerId&) { return false; }).has_value());
}

TEST(WiringTest, WhoWasHeldBackGetsNoBurstAfterwards) {
  Wiring wiring(1);
  wiring.SetMembers({kA, kB});
  for (int i = 0; i < 100; ++i) wiring.Pick([](const WorkerId& id) { return id == kA; });
  const auto count = CountPicks(wiring, 10);
  EXPECT_LE(count.at(kB), 6);
}

TEST(WiringTest, ANewcomerIsMeasuredSoonAndDoesNotTakeEverything) {
  Wiring wiring(1);
  wiring.SetMembers({kA});
  for (int i = 0; i < 100; ++i) wiring.Pick(Anyone);
  wiring.SetMembers({kA, kB});
  const auto count = CountPicks(wiring, 10);
  EXPECT_GE(count.at(kB), 5);
  EXPECT_LE(count.at(kB), 6);
}

TEST(WiringTest, AChangeOfSpeedShowsWithinTensOfMeasurements) {
  Wiring wiring(1);
  wiring.SetMembers({kA});
  for (int i = 0; i < 100; ++i) wiring.Measure(kA, 1.0);
  for (int i = 0; i < 22; ++i) wiring.Measure(kA, 2.0);  // 0.9^22 is a tenth
  EXPECT_NEAR(wiring.EstimateSeconds(kA), 1.9, 0.01);
}

}  // namespace
}  // namespace swarm::protocol
