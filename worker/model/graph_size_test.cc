// Whether api::GraphBytes, by which a worker accounts for its graphs, is about right.
#include <gtest/gtest.h>
#include <malloc.h>

#include "api/model/memory.h"
#include "worker/model/testing/models.h"

namespace swarm::model {
namespace {

double AllocatedBytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

class GraphBytesTest : public ::testing::TestWithParam<std::tuple<std::int64_t, std::uint64_t>> {};

TEST_P(GraphBytesTest, AreThoseThatAForwardLeaves) {
  const auto [key_heads, stage_count] = GetParam();
  StageOptions options;
  options.config = {.hidden_size = 128,
                    .num_hidden_layers = 4,
                    .num_attention_heads = 8,
                    .num_key_value_heads = key_heads,
                    .head_dim = 16,
                    .intermediate_size = 344,
                    .vocab_size = 256,
                    .max_position_embeddings = 512};
  options.stage_count = stage_count;
  auto stage = Stage::Create(options);
  ASSERT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(1);
  const testing::Batch batch(8, 513, 1, options.config.vocab_size);
  const auto forward = [&](std::uint64_t m) {
    const auto done =
        (*stage)->Forward(testing::KeyOf(0, m), Version(0), batch.tokens, {}, /*keep_graph=*/true);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
  };
  forward(0);  // tables and workspaces stay
  const double before = AllocatedBytes();
  forward(1);
  const double left = AllocatedBytes() - before;
  const auto estimate = static_cast<double>(
      api::GraphBytes(options.config, 4 / stage_count, 8 * 512, /*head=*/stage_count == 1));
  EXPECT_NEAR(estimate / left, 1, 0.1) << estimate << " estimated, " << left << " left";
}

INSTANTIATE_TEST_SUITE_P(Shapes, GraphBytesTest,
                         ::testing::Combine(::testing::Values(8, 2), ::testing::Values(1, 2)));

}  // namespace
}  // namespace swarm::model
