#include "ctl/cluster/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace swarm::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::SizeIs;

constexpr api::WallTime kNow{std::chrono::seconds(1'000'000)};

objects::JobView Job(const std::string& name) {
  objects::JobView job;
  job.ns = "team";
  job.name = name;
  job.creation_time = kNow - std::chrono::hours(2);
  job.job.spec.training.maxSteps = 200;
  job.status.state = api::JobState::kRunning;
  job.status.step = 120;
  job.status.plan = {.replicas = 4, .minReplicas = 2, .layout = {2, 2}};
  job.status.readyReplicas = 3;
  job.status.stages = {{0, 2}, {1, 1}};
  job.status.preemptions = 7;
  job.status.lastCheckpoint = {100, kNow - std::chrono::minutes(5)};
  return job;
}

TEST(ClusterViewTest, AJobIsARow) {
  const auto lines = RenderCluster({.jobs = {Job("llama")}, .now = kNow}, 200);
  EXPECT_THAT(
      lines,
      ElementsAre("NAMESPACE  NAME   STATE    STEP     READY  STAGES   PREEMPTIONS  FAILURES  "
                  "CHECKPOINT           AGE",
                  "team       llama  Running  120/200  3/4    2/2 1/2  7            0         "
                  "step 100, 5m00s ago  2h00m"));
}

TEST(ClusterViewTest, AJobThatHasNothingYetSaysSo) {
  objects::JobView fresh;
  fresh.ns = "team";
  fresh.name = "new";
  fresh.creation_time = kNow;
  const auto lines = RenderCluster({.jobs = {fresh}, .now = kNow}, 200);
  EXPECT_THAT(lines[1], HasSubstr("new   Pending  0/0   0/0    -       0            0         -"));
}

TEST(ClusterViewTest, WhatATrainerSaysHasColumnsAndAJobWithoutOneHasDashes) {
  ClusterView view{.jobs = {Job("llama"), Job("qwen")}, .now = kNow};
  view.jobs[0].uid = "one";
  view.jobs[1].uid = "two";
  view.progress["one"] = {.loss = 2.34561, .tokens_per_second = 5200, .seconds_left = 3720};
  const auto lines = RenderCluster(view, 200);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr("STEP     LOSS    TOKENS/S  LEFT   READY"));
  EXPECT_THAT(lines[1], HasSubstr("120/200  2.3456  5.20k     1h02m  3/4"));
  EXPECT_THAT(lines[2], HasSubstr("120/200  -       -         -      3/4"));
}

TEST(ClusterViewTest, WhereAPoolHasAPriceJobsHaveTheirCosts) {
  ClusterView view{.jobs = {Job("llama"), Job("qwen")}, .now = kNow};
  view.jobs[0].status.cost = {.dollars = 12.345, .spent = "$12.35", .dollarsPerHour = 0.8};
  const auto lines = RenderCluster(view, 200);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr("CHECKPOINT           SPENT   $/HOUR  AGE"));
  EXPECT_THAT(lines[1], HasSubstr("step 100, 5m00s ago  $12.35  $0.80   2h00m"));
  EXPECT_THAT(lines[2], HasSubstr("step 100, 5m00s ago  -       -       2h00m"));
}

TEST(ClusterViewTest, DetailsHaveWhatRegionsExchangeAndTheHourHasItsPrice) {
  objects::JobView job = Job("llama");
  job.status.cost = {
      .dollars = 3, .spent = "$3.00", .dollarsPerHour = 0.5, .trafficDollarsPerHour = 0.25};
  job.status.traffic = {{.between = {"asia", "eu"}, .bytes = 20'000'000},
                        {.between = {"eu", "us"}, .bytes = 12'345'000'000, .dollars = 0.25}};
  const auto lines = RenderCluster({.jobs = {job}, .details = true, .now = kNow}, 200);
  EXPECT_THAT(lines, Contains(HasSubstr("$3.00  $0.75")));
  EXPECT_THAT(lines, IsSupersetOf({"BETWEEN      GB      COST",  //
                                   "asia and eu  0.020   -",     //
                                   "eu and us    12.345  $0.25"}));
}

TEST(ClusterViewTest, WhereAJobHasWorkersInSeveralClustersTheyAreCountedByCluster) {
  ClusterView view{.jobs = {Job("llama"), Job("qwen")}, .now = kNow};
  view.jobs[0].status.readyByCluster = "home 2/2, west 1/2 (away)";
  const auto lines = RenderCluster(view, 200);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], HasSubstr("CHECKPOINT           CLUSTERS                   AGE"));
  EXPECT_THAT(lines[1], HasSubstr("step 100, 5m00s ago  home 2/2, west 1/2 (away)  2h00m"));
  EXPECT_THAT(lines[2], HasSubstr("step 100, 5m00s ago  -                          2h00m"));
}

TEST(ClusterViewTest, DetailsHaveARowForEachClusterOfAJobThatHasSeveral) {
  objects::JobView job = Job("llama");
  job.status.readyReplicas = 3;
  job.status.replicas = 4;
  job.status.clusters = {{.name = "east"},
                         {.name = "west",
                          .state = api::ClusterState::kAway,
                          .since = kNow - std::chrono::minutes(5),
                          .replicas = 2,
                          .readyReplicas = 1}};
  const auto lines = RenderCluster({.jobs = {job}, .details = true, .now = kNow}, 200);
  EXPECT_THAT(lines,
              IsSupersetOf({"CLUSTER  READY  STATE     SINCE", "home     2/2    -         -",
                            "east     0/0    Expected  -", "west     1/2    Away      5m00s"}));
}

TEST(ClusterViewTest, MachinesWithoutKubernetesAreListedBehindThePods) {
  objects::JobView job = Job("llama");
  job.status.machines = {{12, "friends", "1a2b", kNow + std::chrono::minutes(41)},
                         {13, "guests", "3c4d", kNow - std::chrono::minutes(1)}};
  const auto lines = RenderCluster({.jobs = {job}, .details = true, .now = kNow}, 200);
  EXPECT_THAT(lines, IsSupersetOf({"MACHINE    POOL     TOKEN  CERTIFICATE",
                                   "llama-w12  friends  1a2b   for 41m00s",
                                   "llama-w13  guests   3c4d   has ended"}));
}

TEST(ProgressTest, ATrainersMetricsTellTheLossTheRateAndTheTimeLeft) {
  const Progress progress = ReadProgress(R"(# HELP swarmjob_trainer_loss Mean training loss
# TYPE swarmjob_trainer_loss gauge
swarmjob_trainer_loss 2.5
swarmjob_trainer_losses_total 7
swarmjob_trainer_tokens_per_second 1.5e+03
swarmjob_trainer_workers{stage="0",state="Ready"} 2
swarmjob_trainer_remaining_seconds 60)");
  EXPECT_EQ(progress.loss, 2.5);
  EXPECT_EQ(progress.tokens_per_second, 1500);
  EXPECT_EQ(progress.seconds_left, 60);
}

TEST(ProgressTest, AStatusTellsThemToWhoMayNotAskTheTrainer) {
  api::SwarmJobStatus status;
  EXPECT_FALSE(ProgressOf(status).has_value());
  status.progress = {.loss = 2.345, .tokensPerSecond = 51200, .secondsLeft = 60};
  EXPECT_EQ(ProgressOf(status)->loss, 2.345);
  EXPECT_EQ(ProgressOf(status)->tokens_per_second, 51200);
  EXPECT_EQ(ProgressOf(status)->seconds_left, 60);
  // As after a loss of machines, while the job is not Ready.
  status.progress = {.loss = 2.345};
  EXPECT_TRUE(std::isnan(ProgressOf(status)->tokens_per_second));
  EXPECT_TRUE(std::isnan(ProgressOf(status)->seconds_left));
}

TEST(ProgressTest, WhatIsNotThereYetIsNotKnown) {
  const Progress progress = ReadProgress("swarmjob_trainer_loss Nan\n\nnonsense\n");
  EXPECT_TRUE(std::isnan(progress.loss));
  EXPECT_TRUE(std::isnan(progress.tokens_per_second));
  EXPECT_TRUE(std::isnan(ReadProgress("").seconds_left));
}

TEST(ClusterViewTest, DetailsAreConditionsAndPods) {
  objects::JobView job = Job("llama");
  job.status.conditions = {{.type = "Ready",
                            .status = api::ConditionStatus::kTrue,
                            .lastTransitionTime = kNow - std::chrono::minutes(1),
                            .reason = "AllStages",
                            .message = "every stage has a ready worker"}};
  plan::ObservedPod pod;
  pod.name = "llama-w3";
  pod.pool = "spot";
  pod.phase = plan::PodPhase::kRunning;
  pod.node = "n1";
  pod.created = kNow - std::chrono::seconds(30);
  plan::ObservedPod leaving = pod;
  leaving.name = "llama-w4";
  leaving.deleted = kNow;
  const auto lines =
      RenderCluster({.jobs = {job}, .pods = {pod, leaving}, .details = true, .now = kNow}, 200);
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_EQ(lines[4], "Ready      True    1m00s  AllStages  every stage has a ready worker");
  EXPECT_EQ(lines[7], "llama-w3  spot  Running      30s  n1");
  EXPECT_EQ(lines[8], "llama-w4  spot  Terminating  30s  n1");
}

TEST(ClusterViewTest, NoLineIsWiderThanTheScreen) {
  for (const std::string& line : RenderCluster({.jobs = {Job("llama")}, .now = kNow}, 40)) {
    EXPECT_LE(line.size(), 40u);
  }
}

}  // namespace
}  // namespace swarm::ctl
