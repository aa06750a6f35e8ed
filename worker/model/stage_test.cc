#include "worker/model/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/model/testing.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::KeyOf;
using testing::Pipeline;
using testing::RelativeDistance;
using testing::SmallConfig;

StageOptions SmallOptions() {
  StageOptions options;
  options.config = SmallConfig();
  return options;
}

class CutTest : public ::testing::TestWithParam<std::tuple<std::uint64_t, bool>> {};

TEST_P(CutTest, GivesTheLossAndTheGradientsOfTheWholeModel) {
  const auto [stage_count, tied] = GetParam();
  StageOptions options = SmallOptions();
  options.config.tie_word_embeddings = tied;
  options.microbatches = 2;
  Pipeline whole(options, 1);
  Pipeline cut(options, stage_count);
  whole.InitRandom(7);
  cut.InitRandom(7);
  for (std::uint64_t m = 0; m < 2; ++m) {
    const Batch batch(2, 9, m, options.config.vocab_size);
    const double expected = whole.Train(0, m, Version(0), batch.tokens);
    EXPECT_NEAR(cut.Train(0, m, Version(0), batch.tokens), expected, 1e-6 * expected);
  }
  const auto expected = whole.Gradients(0);
  const auto actual = cut.Gradients(0);
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    EXPECT_LT(RelativeDistance(actual.at(name), gradient), 1e-6) << name;
    EXPECT_GT(RelativeDistance(std::vector<float>(gradient.size()), gradient), 0.5) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndTies, CutTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5), ::testing::Bool()));

TEST(StageTest, LearnsASequenceByHeart) {
  Pipeline pipeline(SmallOptions(), 2);
  pipeline.InitRandom(1);
  const Batch batch(2, 9, 3, SmallConfig().vocab_size);
  const double before = pipeline.Forward(0, 0, Version(0), batch.tokens, false);
  for (std::uint64_t step = 0; step < 30; ++step) {
    pipeline.Train(step, 0, Version(step), batch.tokens);
    pipeline.Apply(step, 1.0, 1e-2);
  }
  EXPECT_LT(pipeline.Forward(30, 0, Version(30), batch.tokens, false), before / 4);
}

}  // namespace
}  // namespace swarm::model
