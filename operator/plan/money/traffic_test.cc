// Stories of what traffic between regions costs: that each byte counts once, whichever trainer and
// operator counts it, and at which price.
#include "operator/plan/money/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kGB = 1'000'000'000;

/// A job that trains, whose machines cost nothing, and bytes between "eu" and "us" two dollars a
/// GB.
FakeCluster ClusterInTwoRegions() {
  FakeCluster cluster;
  cluster.spec().workers.traffic = {{{"*", "*"}, 1}, {{"us", "eu"}, 2}};
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.Act(cluster.leader);
  return cluster;
}

/// What the trainer counts between "eu" and "us" from now on.
void Exchange(std::uint64_t gigabytes, FakeCluster* cluster, double per_second = 0) {
  cluster->training.traffic = {
      {.a = "eu", .b = "us", .bytes = gigabytes * kGB, .bytes_per_second = per_second}};
}

/// What a decision has now, written or not.
api::SwarmJobStatus Now(FakeCluster& cluster) {
  return Decide(cluster.Observe(cluster.leader)).status;
}

/// Makes a decision that writes the status.
void Write(FakeCluster* cluster) {
  cluster->Advance(120);
  ASSERT_NE(cluster->Act(cluster->leader).write, WriteStatus::kNo);
}

TEST(TrafficTest, BytesBetweenRegionsCostWhatTheLastFittingPriceSays) {
  FakeCluster cluster = ClusterInTwoRegions();
  cluster.training.traffic = {{.a = "asia", .b = "eu", .bytes = kGB},
                              {.a = "eu", .b = "us", .bytes = 3 * kGB}};
  EXPECT_EQ(Now(cluster).cost.dollars, 1 + 3 * 2);
  Write(&cluster);
  const auto& traffic = cluster.status().traffic;
  ASSERT_THAT(traffic, SizeIs(2));
  EXPECT_THAT(traffic[0].between, ElementsAre("asia", "eu"));
  EXPECT_EQ(traffic[0].dollars, 1);
  EXPECT_THAT(traffic[1].between, ElementsAre("eu", "us"));
  EXPECT_EQ(traffic[1].bytes, 3 * kGB);
  EXPECT_EQ(traffic[1].dollars, 6);
  EXPECT_EQ(cluster.status().cost.spent, "$7.00");
}

TEST(TrafficTest, BytesWithoutAPriceAreTold) {
  FakeCluster cluster = ClusterInTwoRegions();
  cluster.spec().workers.traffic.clear();
  Exchange(3, &cluster);
  Write(&cluster);
  EXPECT_EQ(cluster.status().traffic.at(0).bytes, 3 * kGB);
  EXPECT_EQ(cluster.status().cost, api::CostStatus());
}

TEST(TrafficTest, NoByteCountsTwiceWhetherItsCountIsWrittenOrNot) {
  FakeCluster cluster = ClusterInTwoRegions();
  Exchange(3, &cluster);
  Write(&cluster);
  EXPECT_EQ(Now(cluster).cost.dollars, 6);
  Exchange(5, &cluster);
  EXPECT_EQ(Now(cluster).cost.dollars, 10);
  EXPECT_EQ(Now(cluster).cost.dollars, 10);
  cluster.leader = {.term = 2};
  Write(&cluster);
  EXPECT_EQ(cluster.status().cost.dollars, 10);
}

TEST(TrafficTest, TheNextTrainerCountsFromItsOwnStart) {
  FakeCluster cluster = ClusterInTwoRegions();
  Exchange(3, &cluster);
  Write(&cluster);
  const std::uint64_t term = cluster.status().trainer.term;
  cluster.training.traffic.clear();
  cluster.End("job-trainer-" + std::to_string(term), 1);
  cluster.Live(60);
  ASSERT_GT(cluster.status().trainer.term, term);
  EXPECT_EQ(Now(cluster).cost.dollars, 6);
  // It has counted more than the first before it is seen.
  Exchange(4, &cluster);
  Write(&cluster);
  EXPECT_EQ(cluster.status().cost.dollars, 14);
  EXPECT_EQ(cluster.status().traffic.at(0).bytes, 7 * kGB);
  Exchange(5, &cluster);
  Write(&cluster);
  EXPECT_EQ(cluster.status().cost.dollars, 16);
  EXPECT_EQ(cluster.status().traffic.at(0).bytes, 8 * kGB);
}

TEST(TrafficTest, ATrainerThatHasCountedLessBeginsAnewWithinItsTerm) {
  FakeCluster cluster = ClusterInTwoRegions();
  Exchange(3, &cluster);
  Write(&cluster);
  Exchange(1, &cluster);
  EXPECT_EQ(Now(cluster).cost.dollars, 8);
  EXPECT_EQ(Now(cluster).traffic.at(0).bytes, 4 * kGB);
}

TEST(TrafficTest, AChangedPriceHoldsForWhatComesAfter) {
  FakeCluster cluster = ClusterInTwoRegions();
  Exchange(3, &cluster);
  Write(&cluster);
  cluster.spec().workers.traffic = {{{"eu", "us"}, 10}};
  Exchange(4, &cluster);
  EXPECT_EQ(Now(cluster).cost.dollars, 16);
}

TEST(TrafficTest, TheRateIsInThePriceOfTokensAndStopsWithTheTrainer) {
  FakeCluster cluster = ClusterInTwoRegions();
  cluster.training.tokens_per_second = 1000;
  Exchange(1, &cluster, 1e6);  // 7.2 dollars for 3.6 million tokens an hour
  cluster.Live(120);
  EXPECT_EQ(cluster.status().cost.trafficDollarsPerHour, 7.2);
  EXPECT_EQ(cluster.status().cost.dollarsPerHour, 0);
  EXPECT_EQ(cluster.status().cost.dollarsPerBillionTokens, 2000);
  cluster.spec().suspend = true;
  cluster.Live(300);
  ASSERT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_EQ(cluster.status().cost.trafficDollarsPerHour, 0);
  EXPECT_EQ(cluster.status().cost.dollars, 2);
  const api::SwarmJobStatus before = cluster.status();
  cluster.Live(3600);
  EXPECT_EQ(cluster.status(), before);
}

TEST(TrafficTest, ABudgetIsSpentByTrafficToo) {
  FakeCluster cluster;
  cluster.spec().workers.pools[0].machine = {.teraflops = 1, .dollarsPerHour = 1e-3};
  cluster.spec().workers.traffic = {{{"*", "*"}, 1}};
  cluster.spec().budget = {.dollars = 10};
  cluster.Live(60);
  Exchange(9, &cluster);
  cluster.Live(30);
  EXPECT_EQ(cluster.ConditionOf(api::ConditionType::kBudgetSpent).reason, "BudgetLow");
  Exchange(10, &cluster);
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
}

TEST(TrafficTest, WhatNoTrainerSaysLeavesTheStatusFitToBeWritten) {
  FakeCluster cluster = ClusterInTwoRegions();
  cluster.training.traffic = {{.a = std::string(300, 'a'), .b = "eu", .bytes = kGB},
                              {.a = "eu",
                               .b = "us",
                               .bytes = std::numeric_limits<std::uint64_t>::max(),
                               .bytes_per_second = std::numeric_limits<double>::infinity()}};
  Write(&cluster);
  ASSERT_THAT(cluster.status().traffic, SizeIs(1));
  EXPECT_EQ(cluster.status().traffic[0].bytes, 1ull << 62);
  EXPECT_EQ(cluster.status().cost.trafficDollarsPerHour, 0);
  EXPECT_EQ(Now(cluster).traffic, cluster.status().traffic);
}

TEST(TrafficTest, TheStatusHasABoundedNumberOfPairs) {
  FakeCluster cluster = ClusterInTwoRegions();
  for (std::size_t i = 0; i < 2 * api::kTrafficStatusMax; ++i) {
    cluster.training.traffic.push_back({.a = "a", .b = "b" + std::to_string(i), .bytes = kGB});
  }
  Write(&cluster);
  EXPECT_THAT(cluster.status().traffic, SizeIs(api::kTrafficStatusMax));
  EXPECT_EQ(cluster.status().cost.dollars, static_cast<double>(api::kTrafficStatusMax));
}

}  // namespace
}  // namespace swarm::plan
