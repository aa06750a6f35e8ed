#include "ctl/report/stage_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace swarm::ctl {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

StepRow StepOf(double seconds, std::vector<StageRow> stages) {
  return {.seconds = seconds, .stages = std::move(stages)};
}

RunRecord RecordOf(StepRow row) {
  RunRecord record;
  record.steps.push_back(std::move(row));
  return record;
}

double SumOf(const StageSeconds& stage) {
  return stage.tasks + stage.state + stage.summing + stage.recovery + stage.waiting;
}

TEST(StageTimesTest, StepsThatSayNothingOfStagesGiveNoTable) {
  EXPECT_THAT(WhereTimeWent(RecordOf(StepOf(1, {})), {}), IsEmpty());
}

TEST(StageTimesTest, TheTimeOfAllWorkersIsWorkThenSumsThenWaiting) {
  const RunRecord record = RecordOf(
      StepOf(10, {{.workers = 2, .task_seconds = 8, .busy_seconds = 9, .reduce_seconds = 1.5}}));
  const auto stages = WhereTimeWent(record, {});
  ASSERT_THAT(stages, SizeIs(1));
  EXPECT_EQ(stages[0].present, 20);
  EXPECT_EQ(stages[0].tasks, 8);
  EXPECT_EQ(stages[0].state, 1);
  EXPECT_EQ(stages[0].summing, 3) << "both make the sum";
  EXPECT_EQ(stages[0].waiting, 8);
  EXPECT_EQ(SumOf(stages[0]), stages[0].present);
}

TEST(StageTimesTest, ASumBesideTheComputationCostsNoTime) {
  const RunRecord record = RecordOf(
      StepOf(10, {{.workers = 1, .task_seconds = 9, .busy_seconds = 9.5, .reduce_seconds = 8}}));
  const StageSeconds stage = WhereTimeWent(record, {}).at(0);
  EXPECT_EQ(stage.summing, 0.5) << "as long as the device had nothing else to do";
  EXPECT_EQ(stage.waiting, 0);
}

TEST(StageTimesTest, TheWorkersCostWhileTheyTrainByThePricesOfThePools) {
  RunRecord record = RecordOf(StepOf(1800, {{.workers = 3}, {.workers = 1}}));
  record.steps.push_back(StepOf(3600, {{.workers = 2}, {.workers = 1}}));
  EXPECT_EQ(CostOf(record), std::nullopt) << "the pool has no price";
  const api::Machine machine{.teraflops = 1, .dollarsPerHour = 0.5};
  record.job.spec.workers.pools = {{.name = "spot", .machine = machine}};
  EXPECT_EQ(CostOf(record), (api::DollarRange{2.5, 2.5}));
  record.job.spec.workers.pools.push_back({.name = "fast", .machine = machine});
  record.job.spec.workers.pools.back().machine->dollarsPerHour = 1;
  EXPECT_EQ(CostOf(record), (api::DollarRange{2.5, 5}));
  record.steps.push_back(StepOf(1, {}));
  EXPECT_EQ(CostOf(record), std::nullopt) << "a step of an older trainer";
}

TEST(StageTimesTest, WhatAFaultMadeAStepLongerIsRecovery) {
  RunRecord record;
  for (std::uint64_t step = 0; step < 3; ++step) {
    record.steps.push_back(
        StepOf(step == 1 ? 6 : 2, {{.workers = 1, .task_seconds = 1, .busy_seconds = 1}}));
    record.steps.back().step = step;
  }
  Disturbances disturbances{.usual_seconds = 2, .slow_seconds = 2};
  disturbances.incidents.push_back({.events = {}, .first_step = 1, .last_step = 2});
  const StageSeconds stage = WhereTimeWent(record, disturbances).at(0);
  EXPECT_EQ(stage.recovery, 4);
  EXPECT_EQ(stage.waiting, 3);
  EXPECT_EQ(SumOf(stage), 10);
}

TEST(StageTimesTest, NumbersThatCannotBeAreNotCarriedOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RunRecord record = RecordOf(
      StepOf(1, {{.workers = 1, .task_seconds = 5, .busy_seconds = nan, .reduce_seconds = -1}}));
  const StageSeconds stage = WhereTimeWent(record, {}).at(0);
  EXPECT_EQ(stage.tasks, 1) << "a worker computes for a step before it begins, but not in it";
  EXPECT_EQ(SumOf(stage), 1);
}

}  // namespace
}  // namespace swarm::ctl
