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

class GraphBytesTest
    : public ::testing::TestWithParam<std::tuple<std::int64_t, std::uint64_t, bool>> {};

TEST_P(GraphBytesTest, AreThoseThatAForwardLeaves) {
  const auto [key_heads, stage_count, switches] = GetParam();
  StageOptions options;
  options.config = {.hidden_size = 128,
                    .num_hidden_layers = 4,
                    .num_attention_heads = 8,
                    .num_key_value_heads = key_heads,
                    .head_dim = 16,
                    .intermediate_size = 344,
                    .vocab_size = 256,
                    .max_position_embeddings = 512};
  if (switches) {
    options.config.attention_input_bias = options.config.head_norms = true;
    options.config.layers.assign(4, {.window = 200});
  }
  options.stage_count = stage_count;
  auto stage = Stage::Create(options);
  ASSERT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(1);
  // Sequences of another length, so that no tensor takes the kept memory of an earlier test's.
  const std::uint32_t tokens = switches ? 640 : 512;
  const testing::Batch batch(8, tokens + 1, 1, options.config.vocab_size);
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
      api::GraphBytes(options.config, 4 / stage_count, 8 * tokens, /*head=*/stage_count == 1));
  EXPECT_NEAR(estimate / left, 1, 0.1) << estimate << " estimated, " << left << " left";
}

using Shape = std::tuple<std::int64_t, std::uint64_t, bool>;
INSTANTIATE_TEST_SUITE_P(Shapes, GraphBytesTest,
                         ::testing::Values(Shape{8, 1, false}, Shape{8, 2, false},
                                           Shape{2, 1, false}, Shape{2, 2, false},
                                           Shape{2, 1, true}));

}  // namespace
}  // namespace swarm::model
