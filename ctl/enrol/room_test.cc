#include "ctl/enrol/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/gibibytes.h"

namespace swarm::ctl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Two stages of about 13 million parameters a layer, the last with a head of 33 million.
api::SwarmJob TwoStages() {
  api::SwarmJob job;
  job.name = "big";
  job.spec.model.config = {.hidden_size = 1024,
                           .num_hidden_layers = 4,
                           .num_attention_heads = 16,
                           .num_key_value_heads = 16,
                           .head_dim = 64,
                           .intermediate_size = 2816,
                           .vocab_size = 32000};
  job.spec.training = {
      .maxSteps = 1, .globalBatchSize = 1, .microbatchSize = 1, .sequenceLength = 128};
  job.spec.pipeline.stages = 2;
  return job;
}

planner::Machines Memory(double gibibytes) { return {.memory_bytes = gibibytes * kGibibyte}; }

TEST(RoomTest, AMachineHasRoomIfEachStageFits) {
  EXPECT_THAT(WhyNoRoom(TwoStages(), Memory(64)), IsEmpty());
  const std::string why = WhyNoRoom(TwoStages(), Memory(0.5));
  EXPECT_THAT(why, HasSubstr(" of 2 needs "));
  EXPECT_THAT(why, HasSubstr("this machine has 0.5 GiB: it has no room for it"));
  EXPECT_THAT(why, HasSubstr("--no-probe"));
}

TEST(RoomTest, MoreStagesNeedLessOfEach) {
  api::SwarmJob job = TwoStages();
  double least = 0.25;
  while (!WhyNoRoom(job, Memory(least)).empty()) least += 0.25;
  job.spec.pipeline.stages = 1;
  EXPECT_THAT(WhyNoRoom(job, Memory(least)), HasSubstr("stage 0 of 1 needs"));
}

TEST(RoomTest, WhatIsNotKnownBeforehandIsNotHeldAgainstAMachine) {
  EXPECT_THAT(WhyNoRoom(TwoStages(), {}), IsEmpty()) << "its memory";
  api::SwarmJob job = TwoStages();
  job.spec.pipeline.residency = api::Residency::kSwap;
  EXPECT_THAT(WhyNoRoom(job, Memory(0.5)), IsEmpty()) << "what is on its disk";
}

TEST(RoomTest, WhereADeviceComputesItsMemoryCounts) {
  planner::Machines machine = Memory(64);
  machine.device_bytes = 0.25 * kGibibyte;
  EXPECT_THAT(WhyNoRoom(TwoStages(), machine), HasSubstr("has 0.25 GiB"));
  machine.device_bytes = 64 * kGibibyte;
  EXPECT_THAT(WhyNoRoom(TwoStages(), machine), IsEmpty());
}

}  // namespace
}  // namespace swarm::ctl
