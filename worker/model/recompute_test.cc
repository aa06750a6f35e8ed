// A stage that computes again what it does not keep has the bits of one that keeps everything.
#include <gtest/gtest.h>

#include "api/format/enum_names.h"
#include "worker/model/testing/boundaries.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::Case;
using testing::KeyOf;
using testing::Pipeline;
using testing::TextOf;

/// Losses, what crosses boundaries, and sums of gradients of two microbatches: all their bits.
std::vector<std::string> BitsOf(const StageOptions& options, std::uint64_t stages) {
  Pipeline pipeline = testing::MakePipeline(options, stages);
  std::vector<std::string> bits;
  for (std::uint64_t m = 0; m < 2; ++m) {
    const Batch batch(2, 9, m, options.config.vocab_size);
    ForwardResult result;
    for (std::uint64_t s = 0; s < stages; ++s) {
      auto next = pipeline.stage(s).Forward(KeyOf(0, m, s), Version(0), batch.tokens,
                                            result.boundary, /*keep_graph=*/true);
      EXPECT_TRUE(next.ok()) << next.status().ToString();
      result = *next;
      bits.emplace_back(result.boundary.text());
    }
    bits.emplace_back(Bytes::Copy(&result.loss, sizeof result.loss).text());
  }
  for (std::uint64_t m = 0; m < 2; ++m) pipeline.BackwardAndFold(0, m);
  for (const auto& [group, sum] : TextOf(pipeline.Reduce(0))) bits.emplace_back(sum);
  return bits;
}

void ExpectSameBits(StageOptions options, std::uint64_t stages) {
  const auto expected = BitsOf(options, stages);
  for (const auto recompute : {api::Recompute::kLayers, api::Recompute::kFull}) {
    SCOPED_TRACE(NameOf(recompute));
    options.recompute = recompute;
    EXPECT_EQ(BitsOf(options, stages), expected);
  }
}

class RecomputeTest : public ::testing::TestWithParam<Case> {};

TEST_P(RecomputeTest, HasTheSameBits) {
  StageOptions options = testing::OptionsOf(GetParam(), {3, 6});
  for (const std::uint64_t stages : {1, 3}) ExpectSameBits(options, stages);
  for (const auto precision : {api::Precision::kBF16, api::Precision::kFP16}) {
    options.precision = precision;
    ExpectSameBits(options, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, RecomputeTest, ::testing::ValuesIn(testing::Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(RecomputeFamiliesTest, HasTheSameBitsWithEverythingThatAFamilySwitchesOn) {
  StageOptions options = testing::OptionsOf({.tied = true}, {3, 6});
  options.boundary.codec = api::BoundaryCodec::kInt8;
  options.config.attention_input_bias = options.config.head_norms = true;
  for (int i = 0; i < 8; ++i) options.config.layers.push_back({.window = 4, .rotary = i % 2 == 0});
  options.accumulation = api::Accumulation::kExact;
  for (const std::uint64_t stages : {1, 3}) ExpectSameBits(options, stages);
}

TEST(RecomputeFamiliesTest, HasTheSameBitsWithCapsAndWithAdapters) {
  StageOptions options = testing::OptionsOf({.tied = true}, {3, 6});
  options.config.post_norms = options.config.unit_offset_gains = true;
  options.config.attn_logit_softcapping = options.config.final_logit_softcapping = 4;
  for (int i = 0; i < 8; ++i) options.config.layers.push_back({.window = i % 2 == 0 ? 4 : 0});
  for (const std::uint64_t stages : {1, 3}) ExpectSameBits(options, stages);
  options.lora = {.rank = 3, .targets = {"q_proj", "v_proj", "down_proj"}};
  for (const std::uint64_t stages : {1, 3}) ExpectSameBits(options, stages);
}

TEST(RecomputeFamiliesTest, ADroppedVersionTakesItsGraphsAlong) {
  StageOptions options = testing::OptionsOf({}, {4});
  options.recompute = api::Recompute::kFull;
  Pipeline pipeline = testing::MakePipeline(options, 1);
  const Batch batch(2, 9, 1, options.config.vocab_size);
  pipeline.Train(0, 0, Version(0), batch.tokens);
  pipeline.Forward(1, 0, Version(0), batch.tokens);
  pipeline.Apply(0, 1, 1e-3);
  EXPECT_EQ(pipeline.stage(0).Backward(KeyOf(1, 0), {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swarm::model
