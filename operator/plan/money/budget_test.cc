// Stories of a budget: its warnings, the suspension when it is spent, and how a job goes on.
#include "operator/plan/money/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Four workers, together a dollar a second, so that seconds are dollars.
FakeCluster ClusterWithBudget(double dollars) {
  constexpr double kQuarterASecond = 900;
  FakeCluster cluster;
  cluster.spec().workers.pools[0].machine = {.teraflops = 1, .dollarsPerHour = kQuarterASecond};
  cluster.spec().budget = {.dollars = dollars};
  return cluster;
}

std::ptrdiff_t Count(const FakeCluster& cluster, api::Reason reason) {
  return std::ranges::count(cluster.events, reason, &Event::reason);
}

/// Lets the cluster live and makes each decision when the one before asked for it.
void LiveByLookAgain(std::int64_t duration, FakeCluster* cluster) {
  const WallTime end = cluster->now + std::chrono::seconds(duration);
  while (cluster->now < end) {
    const Plan plan = cluster->Act(cluster->leader);
    cluster->RunPods();
    const bool at_rest = plan.write == WriteStatus::kNo && plan.actions.empty();
    cluster->now = at_rest ? std::min(end, plan.look_again.value_or(end))
                           : cluster->now + std::chrono::seconds(1);
  }
}

TEST(BudgetTest, AJobWhoseBudgetIsSpentIsSuspendedWithACheckpoint) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(900);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  cluster.Live(200);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
  EXPECT_TRUE(cluster.Happened("Suspending")) << "the trainer was asked for a checkpoint";
  const api::Condition spent = cluster.ConditionOf(ConditionType::kBudgetSpent);
  EXPECT_EQ(spent.status, ConditionStatus::kTrue);
  EXPECT_EQ(spent.reason, "BudgetSpent");
  EXPECT_THAT(spent.message, HasSubstr("raise spec.budget.dollars"));
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kSuspended).message, "spec.budget is spent");
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kReady).message, "spec.budget is spent");
  EXPECT_EQ(Count(cluster, api::Reason::kBudgetSpent), 1);
  EXPECT_EQ(cluster.status().failures + cluster.status().unexplained, 0u);
}

TEST(BudgetTest, TheUserIsWarnedOnceWhenNineTenthsAreSpent) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(880);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).reason, "BudgetLeft");
  EXPECT_EQ(Count(cluster, api::Reason::kBudgetLow), 0);
  cluster.Live(60);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).reason, "BudgetLow");
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).status, ConditionStatus::kFalse);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  cluster.Live(1000);
  EXPECT_EQ(Count(cluster, api::Reason::kBudgetLow), 1);
}

TEST(BudgetTest, TheOperatorLooksWhenTheMoneyIsSpentThoughNothingElseHappens) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.trainer_speaks = false;
  LiveByLookAgain(998, &cluster);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).reason, "BudgetLow");
  LiveByLookAgain(10, &cluster);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).reason, "BudgetSpent");
}

TEST(BudgetTest, AHigherBudgetLetsTheJobRunAgain) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(1200);
  ASSERT_EQ(cluster.status().state, api::JobState::kSuspended);
  const api::SwarmJobStatus before = cluster.status();
  cluster.Live(7200);
  EXPECT_EQ(cluster.status(), before) << "nothing is written at rest";
  cluster.spec().budget->dollars = 2000;
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_TRUE(cluster.Happened("Resumed"));
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).reason, "BudgetLeft");
  cluster.Live(1200);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_EQ(Count(cluster, api::Reason::kBudgetSpent), 2);
  EXPECT_GE(cluster.status().cost.dollars, 2000);
  EXPECT_LT(cluster.status().cost.dollars, 2050);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(BudgetTest, AJobThatItsUserSuspendedStaysSoWhenTheBudgetIsRaised) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(1200);
  cluster.spec().suspend = true;
  cluster.spec().budget->dollars = 2000;
  cluster.Live(600);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kSuspended).message, "spec.suspend is true");
  cluster.spec().suspend = false;
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(BudgetTest, AUserCannotResumeAJobWhoseBudgetIsSpent) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(1200);
  cluster.spec().suspend = true;
  cluster.Live(60);
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
}

TEST(BudgetTest, WithoutABudgetTheJobRunsAgain) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(1200);
  cluster.spec().budget.reset();
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).status, ConditionStatus::kFalse);
  EXPECT_EQ(cluster.ConditionOf(ConditionType::kBudgetSpent).message, "the job has no budget");
}

TEST(BudgetTest, ALowerBudgetHoldsAtOnce) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(600);
  cluster.spec().budget->dollars = 100;
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
}

TEST(BudgetTest, AnOperatorThatStartsAnewKeepsTheBudget) {
  FakeCluster cluster = ClusterWithBudget(1000);
  cluster.Live(1200);
  cluster.leader = {.term = 2};
  cluster.Live(600);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_EQ(Count(cluster, api::Reason::kBudgetSpent), 1);
}

}  // namespace
}  // namespace swarm::plan
