// Whether api::GraphBytes and api::BackwardBytes, by which a worker accounts for its graphs, are
// about right.
#include <gtest/gtest.h>

#include "api/format/enum_names.h"
#include "api/model/memory.h"
#include "worker/model/testing/counted_memory.h"
#include "worker/model/testing/models.h"

namespace swarm::model {
namespace {

using api::Recompute;
using testing::CountedMemory;
using testing::KeyOf;

constexpr std::uint32_t kSequences = 8, kTokens = 512;

StageOptions Options() {
  StageOptions options;
  options.config = {.hidden_size = 128,
                    .num_hidden_layers = 4,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 8,
                    .head_dim = 16,
                    .intermediate_size = 344,
                    .vocab_size = 256,
                    .max_position_embeddings = 512};
  return options;
}

/// The first stage of a model, which has computed once: tables and workspaces stay.
std::unique_ptr<Stage> Started(const StageOptions& options, const testing::Batch& batch) {
  auto stage = Stage::Create(options);
  EXPECT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(1);
  EXPECT_TRUE((*stage)->Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true).ok());
  (*stage)->Drop(KeyOf(0, 0));
  return std::move(*stage);
}

enum Switches { kLlama, kQwenWithWindows, kGemma };

class GraphBytesTest : public ::testing::TestWithParam<
                           std::tuple<std::int64_t, std::uint64_t, Switches, Recompute>> {};

TEST_P(GraphBytesTest, AreThoseThatAForwardLeaves) {
  const auto [key_heads, stage_count, switches, recompute] = GetParam();
  StageOptions options = Options();
  options.config.num_key_value_heads = key_heads;
  if (switches == kQwenWithWindows) {
    options.config.attention_input_bias = options.config.head_norms = true;
    options.config.layers.assign(4, {.window = 200});
  }
  if (switches == kGemma) {
    options.config.post_norms = options.config.unit_offset_gains = true;
    options.config.attn_logit_softcapping = 50;
    options.config.activation = api::Activation::kGeluTanh;
    options.config.layers = {{.window = 200}, {}, {.window = 200}, {}};
  }
  options.stage_count = stage_count;
  options.recompute = recompute;
  const testing::Batch batch(kSequences, kTokens + 1, 1, options.config.vocab_size);
  const auto stage = Started(options, batch);
  const CountedMemory memory;
  const std::size_t before = memory.used();
  ASSERT_TRUE(stage->Forward(KeyOf(0, 1), Version(0), batch.tokens, {}, true).ok());
  // The output of a stage is not a part of its graph.
  const std::size_t output = stage_count == 1 ? 0 : kSequences * kTokens * 128 * sizeof(float);
  const auto left = static_cast<double>(memory.used() - before - output);
  const auto estimate = static_cast<double>(api::GraphBytes(
      options.config, recompute, 4 / stage_count, kSequences * kTokens, stage_count == 1));
  EXPECT_NEAR(estimate / left, 1, 0.1) << estimate << " estimated, " << left << " left";
}

/// What a forward in 16 bits leaves, as a part of the estimate, which is of float32.
TEST(GraphBytesTest, IsABoundOfWhatSixteenBitsLeave) {
  for (const auto precision : {api::Precision::kBF16, api::Precision::kFP16}) {
    SCOPED_TRACE(NameOf(precision));
    StageOptions options = Options();
    options.precision = precision;
    options.stage_count = 2;
    const testing::Batch batch(kSequences, kTokens + 1, 1, options.config.vocab_size);
    const auto stage = Started(options, batch);
    const CountedMemory memory;
    const std::size_t before = memory.used();
    const auto forward = stage->Forward(KeyOf(0, 1), Version(0), batch.tokens, {}, true);
    ASSERT_TRUE(forward.ok()) << forward.status().ToString();
    const auto left =
        static_cast<double>(memory.used() - before - kSequences * kTokens * 128 * sizeof(float));
    const auto estimate = static_cast<double>(
        api::GraphBytes(options.config, Recompute::kNone, 2, kSequences * kTokens, false));
    // Binary16 keeps float32 between products, where bfloat16 keeps its own numbers.
    EXPECT_NEAR(left / estimate, precision == api::Precision::kFP16 ? 0.8 : 0.6, 0.05);
  }
}

using Shape = std::tuple<std::int64_t, std::uint64_t, Switches, Recompute>;
INSTANTIATE_TEST_SUITE_P(Shapes, GraphBytesTest,
                         ::testing::Values(Shape{8, 1, kLlama, Recompute::kNone},
                                           Shape{8, 2, kLlama, Recompute::kNone},
                                           Shape{2, 1, kLlama, Recompute::kNone},
                                           Shape{2, 2, kLlama, Recompute::kNone},
                                           Shape{2, 1, kQwenWithWindows, Recompute::kNone},
                                           Shape{2, 1, kGemma, Recompute::kNone},
                                           Shape{8, 1, kLlama, Recompute::kLayers},
                                           Shape{8, 2, kLlama, Recompute::kLayers},
                                           Shape{8, 1, kLlama, Recompute::kFull},
                                           Shape{8, 2, kLlama, Recompute::kFull}));

/// The most bytes of tensors while a stage computes four microbatches forward, then backward.
double PeakOf(Recompute recompute) {
  StageOptions options = Options();
  options.recompute = recompute;
  options.stage_count = 2;
  constexpr std::uint64_t kMicrobatches = 4;
  const testing::Batch batch(kSequences, kTokens + 1, 1, options.config.vocab_size);
  const auto stage = Started(options, batch);
  const CountedMemory memory;
  const std::size_t before = memory.used();
  memory.ForgetPeak();
  Bytes output;
  for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
    const auto done = stage->Forward(KeyOf(0, m), Version(0), batch.tokens, {}, true);
    EXPECT_TRUE(done.ok());
    output = done->boundary;
  }
  for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
    EXPECT_TRUE(stage->Backward(KeyOf(0, m), output).ok());
    EXPECT_TRUE(stage->Fold(KeyOf(0, m)).ok());
  }
  return static_cast<double>(memory.peak() - before);
}

TEST(RecomputeTest, TakesThePeakThatThePlanPredicts) {
  const StageOptions options = Options();
  const double none = PeakOf(Recompute::kNone);
  for (const auto& [recompute, name] : EnumNames<Recompute>::kNames) {
    SCOPED_TRACE(name);
    const double peak = PeakOf(recompute);
    const std::uint64_t tokens = kSequences * kTokens;
    // Each microbatch's graph and output, and one backward.
    const double predicted = 4.0 * (api::GraphBytes(options.config, recompute, 2, tokens, false) +
                                    tokens * 128 * sizeof(float)) +
                             api::BackwardBytes(options.config, recompute, 2, tokens);
    EXPECT_NEAR(peak / predicted, 1, 0.1) << peak << " held, " << predicted << " predicted";
    if (recompute != Recompute::kNone) {
      EXPECT_LT(peak, 0.6 * none);
    }
  }
}

TEST(HeadLossTest, NeverHoldsTheLogitsOfAMicrobatch) {
  StageOptions options = Options();
  options.config.num_hidden_layers = 1;
  options.config.vocab_size = 1 << 16;
  options.config.hidden_size = 16;
  const testing::Batch batch(4, kTokens + 1, 1, options.config.vocab_size);
  const auto stage = Started(options, batch);
  const CountedMemory memory;
  const std::size_t before = memory.used();
  memory.ForgetPeak();
  ASSERT_TRUE(stage->Forward(KeyOf(0, 1), Version(0), batch.tokens, {}, true).ok());
  ASSERT_TRUE(stage->Backward(KeyOf(0, 1), {}).ok());
  const std::size_t logits = sizeof(float) * 4 * kTokens * (std::size_t{1} << 16);
  EXPECT_LT(memory.peak() - before, logits / 4);
}

}  // namespace
}  // namespace swarm::model
