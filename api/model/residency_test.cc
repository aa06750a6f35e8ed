#include "api/model/residency.h"

#include <gtest/gtest.h>

#include "api/model/memory.h"
#include "api/testing/test_manifest.h"

namespace swarm::api {
namespace {

constexpr std::uint64_t kParameters = 1'000'000'000;

/// A model of width 2048 with 22 layers, in one stage.
SwarmJob JobOf(Precision precision) {
  SwarmJob job = *ParseGoodWith({});
  job.spec.model.config = {.hidden_size = 2048,
                           .num_hidden_layers = 22,
                           .num_attention_heads = 32,
                           .num_key_value_heads = 4,
                           .head_dim = 64,
                           .intermediate_size = 5632,
                           .vocab_size = 32000,
                           .max_position_embeddings = 2048};
  job.spec.training.precision = precision;
  job.spec.training.microbatchSize = 1;
  job.spec.training.sequenceLength = 2048;
  job.spec.training.stepMode = StepMode::kSync;
  job.spec.training.accumulation = Accumulation::kFloat;
  job.spec.pipeline.stages = 1;
  job.spec.pipeline.residency.reset();
  return job;
}

std::uint64_t BytesOfAParameter(const Spec& spec, Residency residency) {
  return DeviceBytes(spec, residency, 1, 0);
}

TEST(ResidencyTest, TheBytesOfAParameterFollowFromPrecisionModeAndSums) {
  SwarmJob job = JobOf(Precision::kBF16);
  // Operand 2, fresh gradient 2, accumulator 4; master 4, moments 8.
  EXPECT_EQ(BytesOfAParameter(job.spec, Residency::kOffload), 2u + 2 + 4);
  EXPECT_EQ(BytesOfAParameter(job.spec, Residency::kResident), 2u + 2 + 4 + 4 + 8);
  job.spec.training.accumulation = Accumulation::kExact;
  EXPECT_EQ(BytesOfAParameter(job.spec, Residency::kResident), 2u + 2 + 8 + 4 + 8);
  job.spec.training.stepMode = StepMode::kDelayed;
  // Two versions, and two steps that are open.
  EXPECT_EQ(BytesOfAParameter(job.spec, Residency::kResident), 2 * 2u + 2 + 2 * 8 + 2 * 4 + 8);
  // In float32 the operand is the master.
  const SwarmJob wide = JobOf(Precision::kFP32);
  EXPECT_EQ(BytesOfAParameter(wide.spec, Residency::kOffload), 4u + 4 + 4);
  EXPECT_EQ(BytesOfAParameter(wide.spec, Residency::kResident), 4u + 4 + 4 + 8);
  EXPECT_EQ(DeviceBytes(wide.spec, Residency::kResident, 0, 1), 4u) << "of what is frozen";
}

TEST(ResidencyTest, AStageIsResidentWhereTheDeviceHasRoomAndOffloadsWhereNot) {
  const SwarmJob job = JobOf(Precision::kBF16);
  const std::uint64_t resident =
      DeviceBytes(job.spec, Residency::kResident, kParameters, 0) + LeastGraphBytes(job);
  const std::uint64_t just_enough = resident / 9 * 10 + 10;
  const auto roomy = ChooseResidency(job, kParameters, 0, just_enough);
  ASSERT_TRUE(roomy.ok());
  EXPECT_EQ(roomy->residency, Residency::kResident);
  const auto tight = ChooseResidency(job, kParameters, 0, just_enough - (1 << 20));
  ASSERT_TRUE(tight.ok());
  EXPECT_EQ(tight->residency, Residency::kOffload);
  EXPECT_NE(tight->reason.find(std::to_string(resident >> 20) + " MiB"), std::string::npos)
      << tight->reason;
}

TEST(ResidencyTest, WhatTheJobSaysIsDoneOrRefusedWithFigures) {
  SwarmJob job = JobOf(Precision::kBF16);
  const std::uint64_t large = std::uint64_t{141} << 30, small = std::uint64_t{1} << 30;
  job.spec.pipeline.residency = Residency::kOffload;
  const auto offload = ChooseResidency(job, kParameters, 0, large);
  ASSERT_TRUE(offload.ok());
  EXPECT_EQ(*offload, (ResidencyChoice{Residency::kOffload, "the job says so"}));
  job.spec.pipeline.residency = Residency::kResident;
  const Status refused = ChooseResidency(job, kParameters, 0, small).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("with Offload it needs"), std::string::npos)
      << refused.message();
  job.spec.pipeline.residency.reset();
  EXPECT_EQ(ChooseResidency(job, kParameters, 0, small).status().code(),
            StatusCode::kResourceExhausted)
      << "even Offload does not fit";
}

TEST(ResidencyTest, WhatTheHostUpdatesIsOnTheHost) {
  SwarmJob job = JobOf(Precision::kBF16);
  job.spec.optimizer.type = OptimizerType::kMuon;
  const auto choice = ChooseResidency(job, kParameters, 0, std::uint64_t{141} << 30);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->residency, Residency::kOffload);
}

TEST(ResidencyTest, OnTheCpuThereIsOneMemory) {
  const SwarmJob job = JobOf(Precision::kFP32);
  const auto choice = ChooseResidency(job, kParameters, 0, {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->residency, Residency::kResident);
}

TEST(ResidencyTest, ASwappedStateIsInTheMemoryOfTheHostWhereItFits) {
  SwarmJob job = JobOf(Precision::kBF16);
  job.spec.pipeline.residency = Residency::kSwap;
  constexpr std::uint64_t kGiga = 1'000'000'000;
  // 20 bytes a parameter, and a quarter of the memory to move them.
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, 0, 28 * kGiga, 80 * kGiga),
            (SwapRoom{true, 8 * kGiga}));
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, 0, 26 * kGiga, 80 * kGiga),
            (SwapRoom{false, 26 * kGiga}));
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, kGiga / 4, 28 * kGiga, 80 * kGiga),
            (SwapRoom{true, 7 * kGiga}));
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, 0, 60 * kGiga, 24 * kGiga),
            (SwapRoom{true, 12 * kGiga}))
      << "half of the device's";
  job.spec.pipeline.memory.device = 6 * kGiga;
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, 0, 60 * kGiga, 24 * kGiga),
            (SwapRoom{true, 6 * kGiga}))
      << "what the job says";
  job.spec.pipeline.memory.device = 20 * kGiga;
  EXPECT_EQ(ChooseSwapRoom(job, kParameters, 0, 60 * kGiga, 24 * kGiga),
            (SwapRoom{true, 12 * kGiga}))
      << "more than half of the device's is for tasks";
  job.spec.pipeline.memory.device = 0;
  // What moves them has room for the largest segment twice.
  job.spec.model.config.vocab_size = 400'000;
  EXPECT_FALSE(ChooseSwapRoom(job, kParameters, 0, 28 * kGiga, 80 * kGiga).state_in_memory);
}

}  // namespace
}  // namespace swarm::api
