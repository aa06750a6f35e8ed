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

TEST(ScheduleTest, WSDStaysUntilTheLastStepsAndFallsInTheirShape) {
  api::Schedule schedule{.type = api::ScheduleType::kWSD,
                         .warmupSteps = 10,
                         .decaySteps = 20,
                         .finalFraction = 0.2};
  for (const std::uint64_t step : {10, 50, 79, 80}) {
    EXPECT_DOUBLE_EQ(LearningRate(step, kOptimizer, schedule, 100), 2.0) << "step " << step;
  }
  const std::pair<api::DecayShape, double> quarters[] = {
      {api::DecayShape::kLinear, 0.8},
      {api::DecayShape::kCosine, 0.2 + 0.8 * 0.8535533905932737},
      {api::DecayShape::kSquareRoot, 0.6}};
  for (const auto& [shape, at_a_quarter] : quarters) {
    schedule.decayShape = shape;
    EXPECT_NEAR(LearningRate(85, kOptimizer, schedule, 100), 2 * at_a_quarter, 1e-12);
    EXPECT_DOUBLE_EQ(LearningRate(100, kOptimizer, schedule, 100), 0.4);
  }
}

TEST(ScheduleTest, InverseSquareRootHalvesWhenTheWarmUpHasPassedThreeTimesMore) {
  api::Schedule schedule{.type = api::ScheduleType::kInverseSquareRoot, .warmupSteps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(9, kOptimizer, schedule, 100), 2.0);
  EXPECT_DOUBLE_EQ(LearningRate(10, kOptimizer, schedule, 100), 2.0);
  EXPECT_DOUBLE_EQ(LearningRate(40, kOptimizer, schedule, 100), 1.0);
  schedule.warmupSteps = 0;
  EXPECT_DOUBLE_EQ(LearningRate(30'000, kOptimizer, schedule, 100), 1.0);
}

TEST(ScheduleTest, AWarmUpLongerThanTheJobNeverDividesByZero) {
  const api::Schedule schedule{.type = api::ScheduleType::kLinear, .warmupSteps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(4, kOptimizer, schedule, 5), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(10, kOptimizer, schedule, 10), 0.2);
}

}  // namespace
}  // namespace swarm::optim
