#include "worker/protocol/router.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

TEST(RouterTest, EarlyStagesHoldWhatTheStagesBehindThemNeed) {
  EXPECT_EQ(ComputeInFlightLimits({1, 1, 1}), (std::vector<std::uint64_t>{6, 4, 2}));
  EXPECT_EQ(ComputeInFlightLimits({1, 3}), (std::vector<std::uint64_t>{8, 2}));
  EXPECT_EQ(ComputeInFlightLimits({3, 1}), (std::vector<std::uint64_t>{3, 2}));
}

TEST(RouterTest, ARouteNamesOneWorkerOfEachStage) {
  Router router(1, 2);
  router.SetReplicas({{WorkerId("a")}, {WorkerId("b"), WorkerId("c")}});
  const auto route = router.Draw();
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ((*route)[0], WorkerId("a"));
  EXPECT_NE((*route)[1], WorkerId("a"));
}

TEST(RouterTest, DrawsStopAtTheLimitAndGoOnAfterARelease) {
  Router router(1, 1);
  const WorkerId a("a");
  router.SetReplicas({{a}});
  for (std::uint64_t i = 0; i < router.limit(a); ++i) EXPECT_TRUE(router.Draw().has_value());
  EXPECT_FALSE(router.Draw().has_value());
  EXPECT_EQ(router.in_flight(a), router.limit(a));
  router.Release(a);
  EXPECT_TRUE(router.Draw().has_value());
}

TEST(RouterTest, AStageThatIsFullChargesNobodyElse) {
  Router router(1, 2);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a}, {b}});
  while (router.Draw()) {
  }
  EXPECT_EQ(router.in_flight(a), router.in_flight(b));
}

TEST(RouterTest, AStageWithoutReplicasGivesNoRoute) {
  Router router(1, 2);
  router.SetReplicas({{WorkerId("a")}, {}});
  EXPECT_FALSE(router.Draw().has_value());
}

TEST(RouterTest, AWorkerIsChargedForwardAndBackwardTogether) {
  Router router(1, 1);
  const WorkerId a("a");
  router.SetReplicas({{a}});
  router.MeasureForward(a, 1.0);
  router.MeasureBackward(a, 2.0);
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(a), 3.0);
}

TEST(RouterTest, APartOfARouteChargesOnlyItsStages) {
  Router router(1, 3);
  const WorkerId a("a"), b("b"), c("c");
  router.SetReplicas({{a}, {b}, {c}});
  EXPECT_EQ(router.Draw(1, 2, true), std::vector{b});
  EXPECT_EQ(router.in_flight(a), 0u);
  EXPECT_EQ(router.in_flight(b), 1u);
  EXPECT_EQ(router.in_flight(c), 0u);
}

TEST(RouterTest, ARepairMayTakeOneSlotMoreThanFreshMicrobatches) {
  Router router(1, 1);
  router.SetReplicas({{WorkerId("a")}});
  while (router.Draw()) {
  }
  EXPECT_TRUE(router.Draw(0, 1, true).has_value());
  EXPECT_FALSE(router.Draw(0, 1, true).has_value());
  EXPECT_FALSE(router.Draw().has_value());
}

TEST(RouterTest, WhoIsToBeAvoidedIsDrawnOnlyWhereThereIsNoOther) {
  Router router(1, 1);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a, b}});
  while (const auto route = router.Draw(0, 1, false, a)) {
    if ((*route)[0] != a) continue;
    EXPECT_EQ(router.in_flight(b), router.limit(b));
    break;
  }
  router.SetReplicas({{a}});
  router.Release(a);
  EXPECT_EQ(router.Draw(0, 1, false, a), std::vector{a});
}

TEST(RouterTest, WhoStaysKeepsItsLoadAndWhoChangesTheStageBeginsAnew) {
  Router router(1, 2);
  const WorkerId a("a"), b("b"), c("c");
  router.SetReplicas({{a}, {b}});
  ASSERT_TRUE(router.Draw().has_value());
  router.SetReplicas({{a, b}, {c}});
  EXPECT_EQ(router.in_flight(a), 1u);
  EXPECT_EQ(router.in_flight(b), 0u);
  router.Release(WorkerId("gone"));  // nobody's business
}

TEST(RouterTest, WhoIsLateIsAtLeastThatSlow) {
  Router router(1, 1);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a, b}});
  for (const WorkerId& worker : {a, b}) router.MeasureBackward(worker, 1.0);
  router.Charge(a, 0.5);
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(a), 1.0);
  router.Charge(a, 20.0);
  EXPECT_GT(router.EstimateSeconds(a), 1.5);
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(b), 1.0);
}

}  // namespace
}  // namespace swarm::protocol
