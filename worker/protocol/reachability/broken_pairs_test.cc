#include "worker/protocol/reachability/broken_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const WorkerId kA("a"), kB("b"), kC("c"), kD("d");
const Timepoint kNow{std::chrono::hours(1)};
bool All(const WorkerPair&) { return true; }
bool MayGo(const WorkerId&) { return true; }
std::size_t Cost(const WorkerId&) { return 1; }

TEST(BrokenPairsTest, APairIsBrokenAsLongAsOneOfThemSaysSo) {
  BrokenPairs broken;
  EXPECT_THAT(broken.Update(kA, {kB}, kNow), ElementsAre(WorkerPair{kA, kB}));
  EXPECT_THAT(broken.Update(kB, {kA}, kNow), IsEmpty()) << "it is known";
  EXPECT_TRUE(broken.Has(kB, kA));
  broken.Update(kA, {}, kNow);
  EXPECT_TRUE(broken.Has(kA, kB));
  broken.Update(kB, {}, kNow);
  EXPECT_TRUE(broken.empty());
}

TEST(BrokenPairsTest, AWorkerThatIsForgottenTakesAllReportsAboutItAlong) {
  BrokenPairs broken;
  broken.Update(kA, {kB, kC}, kNow);
  broken.Update(kC, {kB}, kNow);
  broken.Forget(kB);
  EXPECT_FALSE(broken.Has(kA, kB));
  EXPECT_FALSE(broken.Has(kC, kB));
  EXPECT_TRUE(broken.Has(kA, kC));
}

TEST(BrokenPairsTest, WhatWasSentBeforeAPairBrokeMayBeLost) {
  BrokenPairs broken;
  broken.Update(kA, {kB}, kNow);
  EXPECT_TRUE(broken.BrokeAfter(kNow - std::chrono::seconds(1), kB, kA));
  EXPECT_FALSE(broken.BrokeAfter(kNow + std::chrono::seconds(1), kB, kA));
  EXPECT_FALSE(broken.BrokeAfter(kNow, kA, kC));
}

TEST(DetourPlanTest, ThirdWorkersShareThePairs) {
  BrokenPairs broken;
  broken.Update(kA, {kB}, kNow);
  broken.Update(kC, {kD}, kNow);
  const DetourPlan plan = PlanDetours(broken, {kA, kB, kC, kD}, All, {});
  EXPECT_EQ(plan.via.at({kA, kB}), kC);
  EXPECT_EQ(plan.via.at({kC, kD}), kA);
  EXPECT_THAT(plan.ByWorker().at(kD), ElementsAre(Detour{kC, kA}));
}

TEST(DetourPlanTest, AWayStaysAsLongAsItServes) {
  BrokenPairs broken;
  broken.Update(kA, {kB}, kNow);
  const DetourPlan before{{{{kA, kB}, kD}}, {}};
  EXPECT_EQ(PlanDetours(broken, {kA, kB, kC, kD}, All, before).via.at({kA, kB}), kD);
  broken.Update(kB, {kD}, kNow);
  EXPECT_EQ(PlanDetours(broken, {kA, kB, kC, kD}, All, before).via.at({kA, kB}), kC);
}

TEST(DetourPlanTest, APairThatNoThirdWorkerReachesIsNamed) {
  BrokenPairs broken;
  broken.Update(kA, {kB, kC}, kNow);
  const DetourPlan plan = PlanDetours(broken, {kA, kB, kC}, All, {});
  EXPECT_THAT(plan.unserved, ElementsAre(WorkerPair{kA, kB}, WorkerPair{kA, kC}));
  EXPECT_EQ(ChooseToGo(plan.unserved, MayGo, Cost), kA);
}

TEST(ChooseToGoTest, TheOneInMostPairsGoesAndOfEqualsTheCheapest) {
  EXPECT_EQ(ChooseToGo({{kA, kB}, {kB, kC}}, MayGo, Cost), kB);
  const auto costs = [](const WorkerId& id) { return std::size_t{id == kB ? 5u : 2u}; };
  EXPECT_EQ(ChooseToGo({{kA, kB}}, MayGo, costs), kA);
  const auto not_a = [](const WorkerId& id) { return id != kA; };
  EXPECT_EQ(ChooseToGo({{kA, kB}}, not_a, costs), kB);
  EXPECT_FALSE(ChooseToGo({{kA, kA}}, not_a, costs));
}

}  // namespace
}  // namespace swarm::protocol
