#include "ctl/report/disturbances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

using testing::SizeIs;

/// Forty steps of a tenth of a second, from time 1000 on.
RunRecord Undisturbed() {
  RunRecord record;
  record.events.push_back(
      {1000, "TrainingStarted", "3 workers in 2 stages, from version 0", {}, 0});
  for (std::uint64_t step = 0; step < 40; ++step) {
    record.steps.push_back({.step = step, .loss = 1, .tokens = 100, .seconds = 0.1});
  }
  return record;
}

TEST(DisturbancesTest, ARunWithoutFaultsHasLostNothing) {
  const Disturbances found = FindDisturbances(Undisturbed());
  EXPECT_THAT(found.incidents, SizeIs(0));
  EXPECT_EQ(found.usual_seconds, 0.1);
  EXPECT_EQ(found.lost_seconds, 0);
  EXPECT_NEAR(*found.wall_seconds, 4, 1e-9);
}

TEST(DisturbancesTest, AWorkerThatIsLostCostsWhatItsStepTookBeyondTheMedian) {
  RunRecord record = Undisturbed();
  record.steps[20].seconds = 0.6;
  record.events.push_back({1002.3, "WorkerLost", "worker-1 of stage 0: silent", {}, 0});
  const Disturbances found = FindDisturbances(record);
  ASSERT_THAT(found.incidents, SizeIs(1));
  EXPECT_EQ(found.incidents[0].first_step, 20u);
  EXPECT_NEAR(*found.incidents[0].lost_seconds, 0.5, 1e-9);
  EXPECT_NEAR(found.lost_tokens, 500, 1e-6) << "five steps of 100 tokens";
}

TEST(DisturbancesTest, TheTimeWithoutATrainerCountsToo) {
  RunRecord record = Undisturbed();
  // The new trainer begins step 20, which the old one would have begun at 1002.
  record.events.push_back({1005, "TookOver", "3 workers of 3, at version 20", {}, 0});
  const Disturbances found = FindDisturbances(record);
  ASSERT_THAT(found.incidents, SizeIs(1));
  EXPECT_NEAR(*found.incidents[0].lost_seconds, 3, 1e-9);
  EXPECT_NEAR(*found.wall_seconds, 7, 1e-9);
}

TEST(DisturbancesTest, AFaultThatSlowedNothingCostsNothing) {
  RunRecord record = Undisturbed();
  record.faults.push_back({.time = 1001.05, .step = 10, .text = "kill worker-1"});
  const Disturbances found = FindDisturbances(record);
  ASSERT_THAT(found.incidents, SizeIs(1));
  EXPECT_EQ(found.incidents[0].lost_seconds, 0);
}

TEST(DisturbancesTest, FaultsCloseToEachOtherAreOneIncident) {
  RunRecord record = Undisturbed();
  record.faults.push_back({.time = 1001.05, .step = 10, .text = "kill worker-1"});
  record.events.push_back({1001.15, "WorkerLost", "worker-1 of stage 0: gone", {}, 0});
  record.faults.push_back({.time = 1003.05, .step = 30, .text = "kill worker-2"});
  record.faults.push_back(
      {.time = 1003.5, .step = 35, .text = "kill worker-9", .error = "no such worker"});
  const Disturbances found = FindDisturbances(record);
  ASSERT_THAT(found.incidents, SizeIs(2));
  EXPECT_THAT(found.incidents[0].events, SizeIs(2));
  EXPECT_THAT(found.incidents[1].events, SizeIs(1));
  EXPECT_THAT(found.events, SizeIs(5)) << "all are told";
}

TEST(DisturbancesTest, WorkersThatComeAndGoInOrderAreNoFaults) {
  RunRecord record = Undisturbed();
  record.events.push_back({1001, "WorkerJoined", "worker-3 serves stage 1", {}, 0});
  record.faults.push_back({.time = 1001.5, .step = 15, .text = "join 1"});
  record.events.push_back({1002, "CheckpointWritten", "version 18", {}, 0});
  const Disturbances found = FindDisturbances(record);
  EXPECT_THAT(found.incidents, SizeIs(0));
  EXPECT_EQ(found.events[3].step, 18u) << "a checkpoint is of its version, not of its time";
}

TEST(DisturbancesTest, AFaultOfARunWithoutStepsIsToldWithoutACost) {
  RunRecord record;
  record.faults.push_back({.time = 5, .step = 0, .text = "kill worker-1"});
  const Disturbances found = FindDisturbances(record);
  ASSERT_THAT(found.incidents, SizeIs(1));
  EXPECT_FALSE(found.incidents[0].lost_seconds);
}

}  // namespace
}  // namespace swarm::ctl
