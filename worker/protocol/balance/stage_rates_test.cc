#include "worker/protocol/balance/stage_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using balancing::FindReplica;
using balancing::Transfer;
using testing::ElementsAre;

/// Three workers, one of them joining, at stages of which the second is four times the work.
balancing::Stages TwoStages() {
  return {{1, {{WorkerId("a"), 8, true}, {WorkerId("b"), 4, true}}},
          {4, {{WorkerId("c"), 3, true}, {WorkerId("d"), 2, false}}}};
}

TEST(StageRatesTest, ThePipelineIsAsFastAsItsSlowestStage) {
  EXPECT_THAT(balancing::ReadyRates(TwoStages()), ElementsAre(12, 3));
  EXPECT_EQ(balancing::Least(balancing::ReadyRates(TwoStages())), 1U);
  EXPECT_DOUBLE_EQ(Throughput(TwoStages()), 3);
}

TEST(StageRatesTest, AJoinerCountsForThePrediction) {
  EXPECT_THAT(balancing::FullRates(TwoStages()), ElementsAre(12, 5));
  EXPECT_DOUBLE_EQ(PredictedThroughput(TwoStages()), 5);
  EXPECT_EQ(balancing::ReadyCount(TwoStages()[1]), 1U);
}

TEST(StageRatesTest, TheFirstOfEquallySlowStagesIsTheBottleneck) {
  EXPECT_EQ(balancing::Least({2, 1, 1}), 1U);
}

TEST(StageRatesTest, AStageWithoutReplicasStopsThePipeline) {
  EXPECT_EQ(Throughput({{1, {{WorkerId("a"), 8, true}}}, {1, {}}}), 0);
}

TEST(StageRatesTest, AWorkerIsSlowerWhereTheWorkIsMore) {
  balancing::Stages stages = TwoStages();
  Transfer(&stages, {WorkerId("a"), 0, 1});
  EXPECT_EQ(FindReplica(stages[0], WorkerId("a")), nullptr);
  EXPECT_DOUBLE_EQ(FindReplica(stages[1], WorkerId("a"))->rate, 2);
  Transfer(&stages, {WorkerId("d"), 1, 0});
  EXPECT_DOUBLE_EQ(FindReplica(stages[0], WorkerId("d"))->rate, 8);
  EXPECT_FALSE(FindReplica(stages[0], WorkerId("d"))->ready) << "it keeps joining";
}

TEST(StageRatesTest, ReasonsNameStagesAndRates) {
  EXPECT_EQ(balancing::Text(2.5), "2.5/s");
  EXPECT_EQ(balancing::Text(std::size_t{3}), "stage 3");
}

}  // namespace
}  // namespace swarm::protocol
