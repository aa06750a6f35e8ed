// Stories of what people read in the status: numbers of training, and the cluster's own words.
#include "operator/plan/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using testing::HasSubstr;

/// Lets the cluster live, with a change before each decision, and returns the number of writes.
int CountWrites(FakeCluster* cluster, int decisions, const std::function<void(int)>& change) {
  int writes = 0;
  for (int i = 0; i < decisions; ++i) {
    change(i);
    writes += cluster->Act(cluster->leader).write == WriteStatus::kNo ? 0 : 1;
    cluster->RunPods();
    cluster->Advance(5);
  }
  return writes;
}

TEST(ProgressTest, TheStatusHasTheTrainersNumbersRounded) {
  FakeCluster cluster;
  cluster.spec().training.globalBatchSize = 8;
  cluster.spec().training.sequenceLength = 128;
  cluster.training = {
      .step = 120, .loss = 2.345678, .tokens_per_second = 51234.6, .seconds_left = 19234};
  cluster.Live(120);
  const api::ProgressStatus& progress = cluster.status().progress;
  EXPECT_EQ(cluster.status().step, 120u);
  EXPECT_EQ(progress.loss, 2.346);
  EXPECT_EQ(progress.tokens, 120u * 8 * 128);
  EXPECT_EQ(progress.tokensPerSecond, 51200u);
  EXPECT_EQ(progress.secondsLeft, 19260u);
  EXPECT_EQ(progress.timeLeft, "5h21m");
}

TEST(ProgressTest, ChangingNumbersAreWrittenOnceAMinute) {
  FakeCluster cluster;
  cluster.Live(120);
  const int writes = CountWrites(&cluster, 120, [&](int i) {
    cluster.training = {.step = 10u + static_cast<std::uint64_t>(i),
                        .loss = 3.0 - i * 0.01,
                        .tokens_per_second = 1000.0 + 100 * i,
                        .seconds_left = 90000.0 - 100 * i};
  });
  EXPECT_GE(writes, 9);
  EXPECT_LE(writes, 11) << "in ten minutes";
}

TEST(ProgressTest, AReadyJobSaysWhichStagesOneRegionHasAlone) {
  FakeCluster cluster;
  cluster.spec().pipeline.surviveRegionLoss = true;
  cluster.training.one_region = "stage 0 is in eu alone: all workers are in one region";
  cluster.Live(120);
  const auto ready = [&] {
    const api::Condition* condition =
        api::FindCondition(cluster.status(), api::ConditionType::kReady);
    return condition == nullptr ? api::Condition() : *condition;
  };
  EXPECT_EQ(ready().status, api::ConditionStatus::kTrue);
  EXPECT_EQ(
      ready().message,
      "every stage has a ready worker; stage 0 is in eu alone: all workers are in one region");
  cluster.training.one_region.clear();
  cluster.Live(120);
  EXPECT_EQ(ready().message, "every stage has a ready worker");
}

TEST(ProgressTest, AJobThatDoesNotTrainHasALossAndNoRate) {
  FakeCluster cluster;
  cluster.training = {.step = 7, .loss = 2.5, .tokens_per_second = 900, .seconds_left = 600};
  cluster.Live(120);
  ASSERT_EQ(cluster.status().progress.tokensPerSecond, 900u);
  cluster.LoseNodeOf("job-trainer-1");
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().state, api::JobState::kRecovering);
  EXPECT_EQ(cluster.status().progress.loss, 2.5);
  EXPECT_EQ(cluster.status().progress.tokensPerSecond, 0u);
  EXPECT_EQ(cluster.status().progress.secondsLeft, std::nullopt);
  EXPECT_EQ(cluster.status().progress.timeLeft, "");
}

TEST(ProgressTest, ATrainerThatHasSeenNoLossYetLeavesTheLastOne) {
  FakeCluster cluster;
  cluster.training.loss = 2.5;
  cluster.Live(120);
  cluster.training.loss = 0;
  cluster.Live(120);
  EXPECT_EQ(cluster.status().progress.loss, 2.5);
}

TEST(ProgressTest, TheStatusSaysSinceWhenItsNumbersAreTheLastThatTheTrainerSaid) {
  FakeCluster cluster;
  cluster.training = {.step = 7, .loss = 2.5, .tokens_per_second = 900, .seconds_left = 600};
  cluster.Live(120);
  cluster.training.step = 8;
  const WallTime said = cluster.now;
  cluster.Live(120);
  ASSERT_EQ(cluster.status().step, 8u);
  const std::optional<WallTime> time = cluster.status().progress.time;
  ASSERT_TRUE(time.has_value());
  EXPECT_GE(*time, said);
  cluster.trainer_speaks = false;
  cluster.training.step = 9;
  cluster.Live(600);
  EXPECT_EQ(cluster.status().step, 8u);
  EXPECT_EQ(cluster.status().progress.time, time);
}

TEST(WordsTest, TheConditionsSpeakInTheSchedulersWords) {
  FakeCluster cluster(4);
  cluster.free_slots["spot"] = 1;
  cluster.Live(900);
  const api::Condition capacity = cluster.ConditionOf(api::ConditionType::kCapacityAvailable);
  EXPECT_EQ(capacity.reason, "NoCapacity");
  EXPECT_THAT(capacity.message, HasSubstr("job-w1: Unschedulable: 0/8 nodes are available"));
  const api::Condition ready = cluster.ConditionOf(api::ConditionType::kReady);
  EXPECT_EQ(ready.reason, "StagesMissing");
  EXPECT_THAT(ready.message, HasSubstr("stage 1; job-w1: Unschedulable: 0/8"));
}

TEST(WordsTest, AMissingImageIsToldInTheKubeletsWords) {
  FakeCluster cluster;
  cluster.registry_answers = "Back-off pulling image \"worker:typo\"";
  cluster.Live(20);
  const api::Condition ready = cluster.ConditionOf(api::ConditionType::kReady);
  EXPECT_EQ(ready.reason, "ImageNotAvailable");
  EXPECT_THAT(ready.message, HasSubstr("ImagePullBackOff: Back-off pulling image"));
}

TEST(WordsTest, WordsThatChangeAllTheTimeAreWrittenOnceAMinute) {
  FakeCluster cluster;
  cluster.trainer_fits_nowhere = "0/1 nodes are available";
  cluster.Live(120);
  const int writes = CountWrites(&cluster, 120, [&](int i) {
    cluster.trainer_fits_nowhere = "0/" + std::to_string(i + 2) + " nodes are available";
  });
  EXPECT_GE(writes, 9);
  EXPECT_LE(writes, 11) << "in ten minutes";
}

}  // namespace
}  // namespace swarm::plan
