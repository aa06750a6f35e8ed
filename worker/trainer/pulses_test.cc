#include "worker/trainer/pulses.h"

#include <gtest/gtest.h>

#include <chrono>

namespace swarm::trainer {
namespace {

using protocol::WorkerId;
using std::chrono::milliseconds;

const WorkerId kA("worker-0");

class PulsesTest : public testing::Test {
 protected:
  static Timepoint At(int ms) { return Timepoint() + std::chrono::hours(1) + milliseconds(ms); }
  protocol::StageStatus::Worker Described() const {
    protocol::JobStatus status;
    status.stages.resize(1);
    status.stages[0].workers.resize(1);
    status.stages[0].workers[0].id = kA;
    pulses_.Describe(&status);
    return status.stages[0].workers[0];
  }

  Pulses pulses_;
};

TEST_F(PulsesTest, UtilizationAndRateAreAveragesOverAboutASecond) {
  pulses_.Watch(kA, At(0));
  pulses_.OnBeat(kA, {.queued_tasks = 3, .bytes_sent = 1000, .busy_seconds = 10}, At(0));
  EXPECT_EQ(Described().queued, 3u);
  EXPECT_EQ(Described().utilization, 0);
  pulses_.OnBeat(kA, {.bytes_sent = 2000, .busy_seconds = 10.5}, At(1000));
  EXPECT_NEAR(Described().utilization, 0.5, 1e-9);
  EXPECT_NEAR(Described().bytes_per_second, 1000, 1e-6);
  // A quarter of a second has a quarter of the weight.
  pulses_.OnBeat(kA, {.bytes_sent = 2000, .busy_seconds = 10.75}, At(1250));
  EXPECT_NEAR(Described().utilization, 0.625, 1e-9);
  EXPECT_NEAR(Described().bytes_per_second, 750, 1e-6);
}

TEST_F(PulsesTest, AWorkerWithoutABeatIsNotDescribed) {
  EXPECT_TRUE(pulses_.empty());
  EXPECT_EQ(Described().utilization, 0);
  pulses_.OnBeat(kA, {}, At(0));
  EXPECT_FALSE(pulses_.empty());
  pulses_.Forget(kA);
  EXPECT_TRUE(pulses_.empty());
}

TEST_F(PulsesTest, ASilentWorkerIsNamedOnce) {
  pulses_.Watch(kA, At(0));
  int named = 0;
  for (int ms = 0; ms <= 6000; ms += 100) {
    for (const WorkerId& worker : pulses_.TakeSilent(At(ms))) {
      EXPECT_EQ(worker, kA);
      ++named;
    }
  }
  EXPECT_EQ(named, 1);
}

TEST_F(PulsesTest, SignsOfLifeAreEnough) {
  pulses_.Watch(kA, At(0));
  for (int ms = 0; ms <= 6000; ms += 100) {
    if (ms % 200 == 0) pulses_.OnSignOfLife(kA, {}, At(ms));
    EXPECT_TRUE(pulses_.TakeSilent(At(ms)).empty()) << ms;
  }
}

}  // namespace
}  // namespace swarm::trainer
