#include "api/model/memory.h"

#include <gtest/gtest.h>

#include "api/testing/test_manifest.h"
#include "api/validate.h"

namespace swarm::api {
namespace {

/// A model of width 4096 with 32 layers in four stages, and sequences of 2048 tokens.
SwarmJob LargeJob() {
  SwarmJob job = *ParseGoodWith({});
  job.spec.model.config = {.hidden_size = 4096,
                           .num_hidden_layers = 32,
                           .num_attention_heads = 32,
                           .num_key_value_heads = 32,
                           .head_dim = 128,
                           .intermediate_size = 11008,
                           .vocab_size = 32000,
                           .max_position_embeddings = 2048};
  job.spec.training.microbatchSize = 1;
  job.spec.training.sequenceLength = 2048;
  job.spec.pipeline.stages = 4;
  job.spec.workers.replicas = 4;
  return job;
}

TEST(MemoryTest, OfALargeModelAMicrobatchNeedsGigabytes) {
  const SwarmJob job = LargeJob();
  EXPECT_EQ(BoundaryBytes(job), 33'554'432u);
  const std::uint64_t layer = GraphBytes(job.spec.model.config, Recompute::kNone, 1, 2048, false);
  EXPECT_EQ(layer, 696'516'608u);
  EXPECT_EQ(GraphBytes(job.spec.model.config, Recompute::kNone, 8, 2048, false), 8 * layer);
  const std::uint64_t head = GraphBytes(job.spec.model.config, Recompute::kNone, 0, 2048, true);
  const std::uint64_t backward = BackwardBytes(job.spec.model.config, Recompute::kNone, 8, 2048);
  EXPECT_EQ(NeededBudget(job), 4 * (8 * layer + head) + 2 * backward);
}

TEST(MemoryTest, TheBudgetBoundsTheMicrobatchesInFlight) {
  SwarmJob job = LargeJob();
  EXPECT_EQ(InFlightMax(job.spec), 0u) << "any number";
  job.spec.workers.memoryBudgetBytes = NeededBudget(job);
  EXPECT_EQ(InFlightMax(job.spec), 1u);
  job.spec.workers.memoryBudgetBytes = 5 * NeededBudget(job);
  EXPECT_EQ(InFlightMax(job.spec), 9u) << "and one more of a repair";
  job.spec.pipeline.inFlightMax = 4;
  EXPECT_EQ(InFlightMax(job.spec), 4u);
}

TEST(MemoryTest, AWorkerThatSwapsWantsMicrobatchesThatPassTogether) {
  SwarmJob job = LargeJob();
  EXPECT_EQ(TasksTogether(job.spec), 0u) << "any number";
  job.spec.pipeline.residency = Residency::kSwap;
  job.spec.training.globalBatchSize = 100 * job.spec.training.microbatchSize;
  EXPECT_EQ(TasksTogether(job.spec), 8u);
  job.spec.pipeline.inFlightMax = 12;
  EXPECT_EQ(TasksTogether(job.spec), 12u);
  job.spec.training.globalBatchSize = 3 * job.spec.training.microbatchSize;
  EXPECT_EQ(TasksTogether(job.spec), 3u) << "a step has no more";
  job.spec.training.stepMode = StepMode::kLocal;
  job.spec.training.local.microbatches = 2;
  EXPECT_EQ(TasksTogether(job.spec), 2u) << "nor has an inner step";
}

TEST(MemoryTest, AWorkerThatSwapsNeedsMoreDiskForStepsOfItsOwn) {
  SwarmJob job = LargeJob();
  job.spec.pipeline.residency = Residency::kSwap;
  job.spec.training.globalBatchSize = 100 * job.spec.training.microbatchSize;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), 20'000u);
  job.spec.training.accumulation = Accumulation::kExact;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), (20 + 8 * 4) * 1000u) << "gradients one by one";
  job.spec.training.accumulation = Accumulation::kFloat;
  job.spec.training.stepMode = StepMode::kLocal;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), 40'000u);
  job.spec.training.local.overlap = true;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), 48'000u);
  job.spec.training.local.fragments = 4;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), 52'000u);
}

TEST(MemoryTest, AWorkerThatSwapsNeedsMoreDiskForAStepThatOverlapsTheNextOne) {
  SwarmJob job = LargeJob();
  job.spec.pipeline.residency = Residency::kSwap;
  job.spec.training.stepMode = StepMode::kDelayed;
  job.spec.training.globalBatchSize = 100 * job.spec.training.microbatchSize;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), (20 + 4 + 4) * 1000u) << "the weights before, a sum";
  job.spec.training.accumulation = Accumulation::kExact;
  EXPECT_EQ(SwapDiskBytes(job.spec, 1000), (20 + 8 * 4 + 4 + 8) * 1000u);
  // Its memory is that of Sync.
  const std::uint64_t least = LeastSwapMemory(job);
  job.spec.training.stepMode = StepMode::kSync;
  EXPECT_EQ(LeastSwapMemory(job), least);
}

TEST(MemoryTest, InputsOfSegmentsMayGoToTheDisk) {
  SwarmJob job = LargeJob();
  job.spec.pipeline.residency = Residency::kSwap;
  job.spec.training.globalBatchSize = 3 * job.spec.training.microbatchSize;
  const std::uint64_t segments = job.spec.model.config.num_hidden_layers + 3;
  EXPECT_EQ(SwapInputBytes(job.spec), 3 * segments * BoundaryBytes(job));
}

TEST(MemoryTest, TheLargestSegmentOfASwappedStageFitsTwice) {
  SwarmJob job = LargeJob();
  // A layer: four square matrices, three of the MLP, two norms.
  const std::uint64_t layer = 4ULL * 4096 * 4096 + 3ULL * 4096 * 11008 + 2 * 4096;
  EXPECT_EQ(LeastSwapMemory(job), LeastSwapMemory(layer, 12));
  // Adapters of rank 2 on queries and on the way down from the MLP: of what is frozen, a half.
  SwarmJob adapted = job;
  adapted.spec.model.lora = {.rank = 2, .targets = {"q_proj", "down_proj"}};
  const std::uint64_t adapters = 2ULL * (4096 + 4096 + 4096 + 11008);
  EXPECT_EQ(LeastSwapMemory(adapted), LeastSwapMemory(layer / 2 + adapters, 12));
  EXPECT_EQ(LeastSwapMemory(layer, 12), 2 * layer * 12 / 3 * 4);
  job.spec.training.precision = Precision::kBF16;
  EXPECT_EQ(LeastSwapMemory(job), LeastSwapMemory(layer, 14));
  job.spec.model.config.vocab_size = 128000;
  EXPECT_EQ(LeastSwapMemory(job), LeastSwapMemory(128001ULL * 4096, 14)) << "the head and its norm";
}

TEST(MemoryTest, AWorkerKeepsSumsBesideItsState) {
  SwarmJob job = LargeJob();
  EXPECT_EQ(ServingBytes(job.spec, 1000, 10, /*alone=*/true), 28'000u + 40);
  EXPECT_EQ(ServingBytes(job.spec, 1000, 10, /*alone=*/false), 36'000u + 40);
  EXPECT_EQ(CopyBytes(job.spec, 1000, 10), 12'000u + 40);
  // Operands of two bytes; a fresh gradient of two in bfloat16, of four in binary16.
  job.spec.training.precision = Precision::kBF16;
  EXPECT_EQ(ServingBytes(job.spec, 1000, 10, /*alone=*/true), 28'000u + 60);
  job.spec.training.precision = Precision::kFP16;
  EXPECT_EQ(ServingBytes(job.spec, 1000, 10, /*alone=*/true), 30'000u + 60);
  EXPECT_EQ(CopyBytes(job.spec, 1000, 10), 12'000u + 40);
  job.spec.training.precision = Precision::kFP32;
  job.spec.training.stepMode = StepMode::kDelayed;
  EXPECT_EQ(ServingBytes(job.spec, 1000, 0, /*alone=*/true), 36'000u);
  EXPECT_EQ(CopyBytes(job.spec, 1000, 0), 16'000u);
}

TEST(MemoryTest, WhatIsComputedAgainIsHeldByOneMicrobatchAtATime) {
  SwarmJob job = LargeJob();
  const DecoderConfig& config = job.spec.model.config;
  const auto bytes_of = [&](Recompute recompute) {
    return std::pair(GraphBytes(config, recompute, 8, 2048, false),
                     BackwardBytes(config, recompute, 8, 2048));
  };
  const std::uint64_t layer = GraphBytes(config, Recompute::kNone, 1, 2048, false);
  const std::uint64_t gradients = sizeof(float) * 2048 * (11008 + 3 * 4096);
  EXPECT_EQ(bytes_of(Recompute::kNone), std::pair(8 * layer, gradients));
  EXPECT_EQ(bytes_of(Recompute::kLayers), std::pair(8 * BoundaryBytes(job), gradients + layer));
  EXPECT_EQ(bytes_of(Recompute::kFull), std::pair(BoundaryBytes(job), gradients + 8 * layer));
  job.spec.workers.memoryBudgetBytes = NeededBudget(job);
  for (const Recompute recompute : {Recompute::kLayers, Recompute::kFull}) {
    job.spec.pipeline.recompute = recompute;
    EXPECT_LT(NeededBudget(job), job.spec.workers.memoryBudgetBytes);
    EXPECT_GT(InFlightMax(job.spec), 1u) << "the same budget has room for more";
  }
}

TEST(MemoryTest, ABudgetWithoutRoomForOneMicrobatchIsRefusedWithFigures) {
  SwarmJob job = LargeJob();
  job.spec.workers.memoryBudgetBytes = NeededBudget(job);
  EXPECT_TRUE(ValidateFit(job).empty());
  --job.spec.workers.memoryBudgetBytes;
  const auto errors = ValidateFit(job);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].path, "spec.workers.memoryBudgetBytes");
  const std::string text = ToString(errors[0]);
  for (const char* figure : {"25170018303", "25170018304", "1 × 2048", "8 layers"}) {
    EXPECT_NE(text.find(figure), std::string::npos) << figure << " is not in: " << text;
  }
}

}  // namespace
}  // namespace swarm::api
