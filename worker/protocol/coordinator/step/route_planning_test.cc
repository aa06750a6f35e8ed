// Routes that follow what workers report of their links.
#include <gtest/gtest.h>

#include <algorithm>

#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class RoutePlanningTest : public CoordinatorTest {
 protected:
  RoutePlanningTest() {
    options_.microbatches = 16;
    boundary_bytes_ = 1000;
  }
  /// Afterwards rates and boundaries are measured.
  void CompleteFirstStep() {
    for (std::uint64_t m : {0, 1}) Forward(m, 0);  // one each
    CompleteStep();
  }
  /// a1 is as near to b1 as a2 to b2, in seconds; the others are as far away.
  void ReportLinks(double far, double near = 0.01) {
    Pass(milliseconds(100));
    Say("a1", Links{{{"b1", {near, 0}}, {"b2", {far, 0}}}});
    Say("a2", Links{{{"b1", {far, 0}}, {"b2", {near, 0}}}});
    Pass(seconds(5));
  }
  /// Microbatches of the present step that go from a1 to b2, or from a2 to b1.
  int CountAcross() {
    int across = 0;
    for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
      FoldAll();
      across += Owner(m, 0).back() != Owner(m, 1).back();
    }
    return across;
  }
};

TEST_F(RoutePlanningTest, MicrobatchesTakeTheNearLinksOnceTheyAreKnown) {
  StartTraining({2, 2});
  CompleteFirstStep();
  EXPECT_LE(CountAcross(), 2) << "of the lanes, none goes across; the first routes are plain";
  ReportLinks(0.01, 20);
  EXPECT_TRUE(Happened("RoutesPlanned"));
  CompleteStep();
  EXPECT_GE(CountAcross(), 15) << "one may be plain";
}

TEST_F(RoutePlanningTest, LanesStayInARegionWithoutAnyReport) {
  regions_ = {{"a1", "eu"}, {"a2", "us"}, {"b1", "us"}, {"b2", "eu"}};
  StartTraining({2, 2});
  CompleteFirstStep();
  EXPECT_GE(CountAcross(), 14) << "all lanes go across; the first routes are plain";
  EXPECT_FALSE(Happened("RoutesPlanned"));
}

TEST_F(RoutePlanningTest, WhoWaitedForOthersCountsWithWhatItTookItself) {
  StartTraining({2, 2});
  CompleteFirstStep();
  const std::string waited = Owner(0, 0);
  for (std::uint64_t m = 1; m < options_.microbatches; ++m) {
    for (const std::uint64_t stage : {1, 0}) Fold(m, stage);
  }
  Pass(seconds(100));
  ASSERT_TRUE(Happened("MicrobatchStuck"));
  for (const Revoke& revoke : Told<Revoke>(waited)) Say(waited, Revoked{revoke.key, false});
  ReportLinks(0.01, 20);
  // a1 and a2 take two seconds each.
  EXPECT_TRUE(std::ranges::any_of(All<order::Event>(), [](const order::Event& event) {
    return event.text.starts_with("by links: at most 1 microbatches/s");
  }));
}

TEST_F(RoutePlanningTest, LanesThatTakeTheNearLinksAreLeftAlone) {
  StartTraining({2, 2});
  CompleteFirstStep();
  ReportLinks(20);
  EXPECT_FALSE(Happened("RoutesPlanned"));
}

TEST_F(RoutePlanningTest, LinksThatDifferLittleChangeNothing) {
  StartTraining({2, 2});
  CompleteFirstStep();
  ReportLinks(0.02);
  EXPECT_FALSE(Happened("RoutesPlanned"));
}

TEST_F(RoutePlanningTest, RoutesArePlannedOnceAllStagesAreMeasured) {
  StartTraining({2, 2});
  ReportLinks(0.01, 20);
  EXPECT_FALSE(Happened("RoutesPlanned"));
  CompleteFirstStep();
  Pass(seconds(5));
  EXPECT_TRUE(Happened("RoutesPlanned"));
}

TEST_F(RoutePlanningTest, ABrokenPairGetsNoShare) {
  StartTraining({2, 2});
  CompleteFirstStep();
  ReportLinks(20);
  Listen();
  Say("a1", Unheard{{WorkerId("b1")}});
  Pass(seconds(1));
  Say("a1", Unheard{{WorkerId("b1")}});
  Pass(seconds(5));
  EXPECT_TRUE(Happened("RoutesPlanned"));
  CompleteStep();
  EXPECT_GT(CountAcross(), 8) << "a1 sends to b2, and so a2 to b1";
}

TEST_F(RoutePlanningTest, WhenAWorkerIsLostTheOthersTakeItsMicrobatches) {
  StartTraining({2, 2});
  CompleteFirstStep();
  ReportLinks(20);
  Lose("b1");
  Pass(milliseconds(100));
  CompleteStep();
  CompleteStep();
  EXPECT_GE(step(), 3u);
}

}  // namespace
}  // namespace swarm::protocol
