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
  const std::uint64_t layer = GraphBytes(job.spec.model.config, 1, 2048, false);
  EXPECT_EQ(layer, 696'516'608u);
  EXPECT_EQ(GraphBytes(job.spec.model.config, 8, 2048, false), 8 * layer);
  const std::uint64_t head = GraphBytes(job.spec.model.config, 0, 2048, true);
  EXPECT_EQ(NeededBudget(job), 4 * (8 * layer + head));
}

TEST(MemoryTest, TheBudgetBoundsTheMicrobatchesInFlight) {
  SwarmJob job = LargeJob();
  EXPECT_EQ(InFlightMax(job), 0u) << "any number";
  job.spec.workers.memoryBudgetBytes = NeededBudget(job);
  EXPECT_EQ(InFlightMax(job), 1u);
  job.spec.workers.memoryBudgetBytes = 5 * NeededBudget(job);
  EXPECT_EQ(InFlightMax(job), 9u) << "and one more of a repair";
  job.spec.pipeline.inFlightMax = 4;
  EXPECT_EQ(InFlightMax(job), 4u);
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
  for (const char* figure : {"23739760639", "23739760640", "1 × 2048", "8 layers"}) {
    EXPECT_NE(text.find(figure), std::string::npos) << figure << " is not in: " << text;
  }
}

}  // namespace
}  // namespace swarm::api
