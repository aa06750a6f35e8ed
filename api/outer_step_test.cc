#include "api/outer_step.h"

#include <gtest/gtest.h>

namespace swarm::api {
namespace {

Training RoundsFor(std::uint64_t replicas) {
  Training training{.globalBatchSize = 2 * 10 * 3 * replicas, .microbatchSize = 2};
  training.stepMode = StepMode::kLocal;
  training.local = {.innerSteps = 10, .microbatches = 3};
  return training;
}

TEST(OuterStepTest, MoreReplicasMakeLongerSteps) {
  double before = 0;
  for (const std::uint64_t replicas : {1, 2, 3, 4, 7, 8, 100}) {
    ASSERT_EQ(ReplicasOfRound(RoundsFor(replicas)), replicas);
    const OuterStep step = OuterStepOf(RoundsFor(replicas));
    const double length = step.learning_rate / (1 - step.momentum);
    EXPECT_GE(length, before) << replicas;
    before = length;
  }
  EXPECT_EQ(OuterStepOf(RoundsFor(2)), (OuterStep{1, 0.5}));
  EXPECT_EQ(OuterStepOf(RoundsFor(4)), (OuterStep{1, 0.8}));
}

TEST(OuterStepTest, OneReplicaGoesOnFromItsOwnWeights) {
  EXPECT_EQ(OuterStepOf(RoundsFor(1)), (OuterStep{1, 0}));
}

TEST(OuterStepTest, TheManifestCountsFieldByField) {
  Training training = RoundsFor(4);
  training.local.outerMomentum = 0;
  EXPECT_EQ(OuterStepOf(training), (OuterStep{1, 0}));
  training.local.outerLearningRate = 0.7;
  EXPECT_EQ(OuterStepOf(training), (OuterStep{0.7, 0}));
}

}  // namespace
}  // namespace swarm::api
