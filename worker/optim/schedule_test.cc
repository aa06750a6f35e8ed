#include "worker/optim/schedule.h"

#include <gtest/gtest.h>

namespace swarm::optim {
namespace {

const api::Optimizer kOptimizer{.learningRate = 2.0};

TEST(ScheduleTest, RisesLinearlyToTheFullRateAtTheLastStepOfTheWarmUp) {
  const api::Schedule schedule{.type = api::ScheduleType::kCosine, .warmupSteps = 4};
  EXPECT_DOUBLE_EQ(LearningRate(0, kOptimizer, schedule, 100), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(3, kOptimizer, schedule, 100), 2.0);
  EXPECT_DOUBLE_EQ(LearningRate(4, kOptimizer, schedule, 100), 2.0);
}

TEST(ScheduleTest, FallsToTheFinalFractionAtTheEnd) {
  for (const auto type : {api::ScheduleType::kCosine, api::ScheduleType::kLinear}) {
    const api::Schedule schedule{.type = type, .warmupSteps = 10, .finalFraction = 0.1};
    EXPECT_DOUBLE_EQ(LearningRate(60, kOptimizer, schedule, 110), 1.1) << "half way";
    EXPECT_DOUBLE_EQ(LearningRate(110, kOptimizer, schedule, 110), 0.2);
    EXPECT_DOUBLE_EQ(LearningRate(500, kOptimizer, schedule, 110), 0.2) << "after the end";
  }
}

TEST(ScheduleTest, CosineIsAboveTheLineBeforeTheMiddle) {
  const api::Schedule cosine{.type = api::ScheduleType::kCosine, .finalFraction = 0};
  EXPECT_NEAR(LearningRate(25, kOptimizer, cosine, 100), 2 * 0.853553390593, 1e-10);
}

TEST(ScheduleTest, ConstantStaysAfterTheWarmUp) {
  const api::Schedule schedule{.type = api::ScheduleType::kConstant, .warmupSteps = 2};
  EXPECT_DOUBLE_EQ(LearningRate(0, kOptimizer, schedule, 10), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(9, kOptimizer, schedule, 10), 2.0);
}

TEST(ScheduleTest, AWarmUpLongerThanTheJobNeverDividesByZero) {
  const api::Schedule schedule{.type = api::ScheduleType::kLinear, .warmupSteps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(4, kOptimizer, schedule, 5), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(10, kOptimizer, schedule, 10), 0.2);
}

}  // namespace
}  // namespace swarm::optim
