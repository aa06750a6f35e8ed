// Stories of what a job costs: which moments count, that each counts once, and what a step costs.
#include "operator/plan/money/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using testing::IsEmpty;

/// A dollar a second, so that seconds are dollars.
constexpr double kDollarASecond = 3600;

void SetPrice(double dollars_per_hour, FakeCluster* cluster) {
  cluster->spec().workers.pools[0].machine = {.teraflops = 1, .dollarsPerHour = dollars_per_hour};
}

/// Four workers and a trainer, which have nodes from the first second on.
FakeCluster PricedCluster() {
  FakeCluster cluster;
  SetPrice(kDollarASecond, &cluster);
  cluster.Act(cluster.leader);
  cluster.RunPods();
  return cluster;
}

/// What is counted now, written or not.
double Dollars(FakeCluster& cluster) {
  return Decide(cluster.Observe(cluster.leader)).status.cost.dollars;
}

TEST(CostTest, WorkersCostTheirPoolsPriceFromTheMomentTheyHaveANode) {
  FakeCluster cluster = PricedCluster();
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 40);
  cluster.Advance(1000);
  EXPECT_EQ(Dollars(cluster), 4040);
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().cost.dollars, 4040);
  EXPECT_EQ(cluster.status().cost.spent, "$4040.00");
  EXPECT_EQ(cluster.status().cost.dollarsPerHour, 4 * kDollarASecond);
}

TEST(CostTest, APodThatWaitsForANodeCostsNothingAndOneThatPullsItsImageDoes) {
  FakeCluster cluster;
  SetPrice(kDollarASecond, &cluster);
  cluster.free_slots["spot"] = 1;
  cluster.registry_answers = "the registry is slow";
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 10);
}

TEST(CostTest, APodCostsThePriceOfEachOfItsWorkers) {
  FakeCluster cluster;
  SetPrice(kDollarASecond, &cluster);
  cluster.pod_sizes["spot"] = 4;
  cluster.Act(cluster.leader);
  cluster.RunPods();
  ASSERT_EQ(cluster.Workers().size(), 1u);
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 40);
}

TEST(CostTest, AWorkerThatHasEndedCostsNothingAnyMoreThoughItsPodIsKept) {
  FakeCluster cluster = PricedCluster();
  cluster.free_slots["spot"] = 0;
  cluster.Advance(10);
  cluster.End("job-w0", 1);
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 3 * 20 + 10);
}

TEST(CostTest, AWorkerThatIsGoneWithoutAWordCostsUntilTheOperatorMissesIt) {
  FakeCluster cluster = PricedCluster();
  cluster.free_slots["spot"] = 0;
  cluster.Advance(10);
  cluster.Act(cluster.leader);
  cluster.pods.erase("job-w0");
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 80);
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 3 * 30 + 20);
}

TEST(CostTest, AnOperatorThatStartsAnewCountsOnFromTheStatus) {
  FakeCluster cluster = PricedCluster();
  cluster.Live(600);
  const double before = cluster.status().cost.dollars;
  EXPECT_GT(before, 4 * 530);
  cluster.leader = {.term = 2};
  cluster.Advance(300);
  EXPECT_EQ(Dollars(cluster), 4 * 900);
}

TEST(CostTest, NoTimeCountsTwiceAndNothingIsTakenBackIfTheClockIsSetBack) {
  FakeCluster cluster = PricedCluster();
  cluster.Live(600);
  cluster.Act(cluster.leader);
  const api::CostStatus before = cluster.status().cost;
  cluster.Advance(-300);
  EXPECT_EQ(Dollars(cluster), before.dollars);
  cluster.Advance(300);
  const double counted = Dollars(cluster);
  EXPECT_GE(counted, before.dollars);
  EXPECT_EQ(counted, 4 * 600);
}

TEST(CostTest, ASuspendedJobCostsNothingAndItsStatusIsAtRest) {
  FakeCluster cluster = PricedCluster();
  cluster.Live(600);
  cluster.spec().suspend = true;
  cluster.Live(300);
  ASSERT_EQ(cluster.status().state, api::JobState::kSuspended);
  const api::SwarmJobStatus before = cluster.status();
  EXPECT_GE(before.cost.dollars, 4 * 600);
  EXPECT_EQ(before.cost.dollarsPerHour, 0);
  cluster.Live(3600);
  EXPECT_EQ(cluster.status(), before);
}

TEST(CostTest, CountingWritesTheStatusOnceAMinute) {
  FakeCluster cluster = PricedCluster();
  cluster.Live(120);
  int writes = 0;
  for (int i = 0; i < 120; ++i) {
    writes += cluster.Act(cluster.leader).write == WriteStatus::kNo ? 0 : 1;
    cluster.Advance(5);
  }
  EXPECT_EQ(writes, 10);
}

/// The machine `ordinal` has joined the pool "rented", at a dollar a second.
void Join(std::uint64_t ordinal, FakeCluster* cluster) {
  cluster->spec().workers.machinePools = {{.name = "rented", .dollarsPerHour = kDollarASecond}};
  api::SwarmJobStatus& status = cluster->job.status;
  status.nextWorkerOrdinal = std::max(status.nextWorkerOrdinal, ordinal + 1);
  status.machines.push_back({ordinal, "rented", "ab12", cluster->now + std::chrono::hours(1)});
  cluster->joined.insert("job-w" + std::to_string(ordinal) + "-0");  // of a machine with devices
}

/// A job whose pods cost nothing.
FakeCluster UnpricedCluster() {
  FakeCluster cluster;
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.Act(cluster.leader);
  return cluster;
}

TEST(CostTest, AMachineThatJoinsCostsItsPoolsPriceWhileTheTrainerListsIt) {
  FakeCluster cluster = UnpricedCluster();
  cluster.Advance(1000);
  Join(20, &cluster);
  Dollars(cluster);
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 10);
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().cost.dollarsPerHour, kDollarASecond);
  cluster.Advance(5);
  cluster.joined.clear();  // it keeps its place, and costs nothing any more
  EXPECT_EQ(Dollars(cluster), 15);
  cluster.Advance(1000);
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().cost.dollars, 15);
  EXPECT_EQ(cluster.status().cost.dollarsPerHour, 0);
}

TEST(CostTest, WhileTheTrainerIsSilentAMachineThatWasAtWorkIsTakenForOne) {
  FakeCluster cluster = UnpricedCluster();
  Join(20, &cluster);
  Dollars(cluster);
  cluster.trainer_speaks = false;
  cluster.Advance(60);
  EXPECT_EQ(Dollars(cluster), 60);
  cluster.trainer_speaks = true;
  cluster.joined.clear();  // a break in its connection
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 70);
  cluster.joined.insert("job-w20");
  cluster.Advance(10);
  EXPECT_EQ(Dollars(cluster), 80) << "no moment counts twice";
}

TEST(CostTest, AMachineCostsNothingAnyMoreOnceTheTrainerHasEnded) {
  FakeCluster cluster = UnpricedCluster();
  Join(20, &cluster);
  Dollars(cluster);
  cluster.spec().suspend = true;  // the machine does not know it, and keeps its place
  cluster.Live(300);
  ASSERT_EQ(cluster.status().state, api::JobState::kSuspended);
  const double spent = Dollars(cluster);
  cluster.Advance(1000);
  EXPECT_EQ(Dollars(cluster), spent);
}

TEST(CostTest, AnOperatorThatStartsAnewCountsMachinesOnFromTheStatus) {
  FakeCluster cluster = UnpricedCluster();
  Join(20, &cluster);
  Dollars(cluster);
  cluster.Advance(10);
  cluster.Act(cluster.leader);
  cluster.Advance(30);
  Leader next{.term = 2};
  EXPECT_EQ(Decide(cluster.Observe(next)).status.cost.dollars, 40);
}

TEST(CostTest, APoolWithoutAPriceCostsNothing) {
  FakeCluster cluster;
  cluster.Live(600);
  EXPECT_EQ(cluster.status().cost, api::CostStatus());
}

TEST(CostTest, StepsAndTokensHaveAPriceWhileTheJobTrains) {
  FakeCluster cluster;
  SetPrice(0.9, &cluster);
  cluster.spec().training.globalBatchSize = 10;
  cluster.spec().training.sequenceLength = 100;
  cluster.training.tokens_per_second = 1000;
  cluster.Live(120);
  // 3.6 dollars buy 3.6 million tokens an hour, and a step has 1000.
  EXPECT_EQ(cluster.status().cost.dollarsPerBillionTokens, 1000);
  EXPECT_EQ(cluster.status().cost.dollarsPerStep, 0.001);
  cluster.spec().suspend = true;
  cluster.Live(120);
  EXPECT_EQ(cluster.status().cost.dollarsPerBillionTokens, std::nullopt);
  EXPECT_EQ(cluster.status().cost.dollarsPerStep, std::nullopt);
}

TEST(CostTest, UnderLossesThatAnOperatorSeesTheSumIsWhatTheMachinesWereHeldFor) {
  FakeCluster cluster = PricedCluster();
  cluster.spec().failurePolicy = {.maxFailures = 1000, .windowSeconds = 600};
  double held = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string victim = "job-w" + std::to_string(cluster.status().nextWorkerOrdinal - 1);
    if (i % 10 == 5 && cluster.pods.contains(victim)) cluster.End(victim, 137);
    if (i % 10 == 9 && cluster.pods.contains(victim)) cluster.pods.erase(victim);
    cluster.Act(cluster.leader);
    for (const auto& [name, pod] : cluster.pods) {
      if (pod.role == PodRole::kWorker && !pod.node.empty() && !pod.end) held += 5;
    }
    cluster.Advance(5);
    cluster.RunPods();
  }
  // A pod that vanishes does so right before a decision, which misses it at that moment.
  EXPECT_EQ(Dollars(cluster), held);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

}  // namespace
}  // namespace swarm::plan
