// Accumulation::kExact: sums of integers, their scales, and what happens to contributions that do
// not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "worker/model/start/start.h"
#include "worker/model/testing/models.h"
#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

using ::testing::AllOf;
using testing::Batch;
using ::testing::Contains;
using ::testing::Each;
using testing::ElementsOf;
using ::testing::HasSubstr;
using ::testing::Key;
using testing::KeyOf;
using ::testing::Not;
using testing::Pipeline;
using testing::SmallConfig;
using testing::TextOf;

constexpr std::uint64_t kMicrobatches = 4;

StageOptions ExactOptions() {
  StageOptions options;
  options.config = SmallConfig();
  options.microbatches = kMicrobatches;
  options.accumulation = api::Accumulation::kExact;
  return options;
}

/// Trains a step with all microbatches, of one batch each.
void TrainStep(Pipeline& pipeline, std::uint64_t step, std::uint64_t version) {
  for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
    const Batch batch(2, 9, 100 * step + m, SmallConfig().vocab_size);
    pipeline.Train(step, m, Version(version), batch.tokens);
  }
}

using Tensors = std::map<std::string, checkpoint::NamedTensor>;

std::int64_t NumberIn(const Tensors& tensors, const std::string& name) {
  return ElementsOf<std::int64_t>(tensors.at(name).data)[0];
}

/// The state with other exponents.
Tensors WithScale(Tensors tensors, std::int64_t exponent) {
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with("optimizer.scale.")) {
      tensor.data = Bytes::Copy(&exponent, sizeof exponent);
    }
  }
  return tensors;
}

class PartitionTest : public ::testing::TestWithParam<bool> {};

TEST_P(PartitionTest, AnyPartitionInAnyOrderAddsUpToTheSameBits) {
  StageOptions options = ExactOptions();
  options.config.tie_word_embeddings = GetParam();
  Pipeline whole(options, 1);
  whole.InitRandom(7);
  TrainStep(whole, 0, 0);
  const auto expected = TextOf(whole.Reduce(0));
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Rng rng(seed);
    Pipeline first(options, 1), second(options, 1);
    first.InitRandom(7);
    second.InitRandom(7);
    std::vector<std::uint64_t> order{0, 1, 2, 3};
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
    for (const std::uint64_t m : order) {
      const Batch batch(2, 9, m, options.config.vocab_size);
      (rng.Below(2) == 0 ? first : second).Train(0, m, Version(0), batch.tokens);
    }
    auto sums = first.Reduce(0);
    for (const auto& [group, sum] : second.Reduce(0)) {
      sums[group] = testing::Add<std::int64_t>(sums[group], sum);
    }
    EXPECT_EQ(TextOf(sums), expected) << "seed " << seed;
  }
}

TEST_P(PartitionTest, CutsWithoutALossyCodecChangeNoBit) {
  StageOptions options = ExactOptions();
  options.config.tie_word_embeddings = GetParam();
  std::map<std::string, std::string> expected;
  for (const std::uint64_t stage_count : {1, 2, 5}) {
    SCOPED_TRACE(std::to_string(stage_count) + " stages");
    Pipeline pipeline(options, stage_count);
    pipeline.InitRandom(7);
    for (std::uint64_t step = 0; step < 3; ++step) {
      TrainStep(pipeline, step, step);
      pipeline.Apply(step, 0.5, 1e-2);
    }
    for (const auto& [name, tensor] : pipeline.Snapshot()) {
      const std::string bytes(tensor.data.text());
      EXPECT_TRUE(expected.try_emplace(name, bytes).first->second == bytes) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ties, PartitionTest, ::testing::Bool());

TEST(ExactStageTest, LearnsLikeOneThatSumsFloats) {
  StageOptions options = ExactOptions();
  Pipeline exact(options, 2);
  options.accumulation = api::Accumulation::kFloat;
  Pipeline floats(options, 2);
  exact.InitRandom(7);
  floats.InitRandom(7);
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (Pipeline* pipeline : {&exact, &floats}) {
      TrainStep(*pipeline, step, step);
      pipeline->Apply(step, 0.5, 1e-2);
    }
  }
  const Batch batch(2, 9, 5, options.config.vocab_size);
  const double expected = floats.Forward(10, 0, Version(10), batch.tokens, false);
  EXPECT_NEAR(exact.Forward(10, 0, Version(10), batch.tokens, false), expected, 1e-5 * expected);
}

/// A stage that is the whole model, and a microbatch whose gradients wait under `key`.
struct Waiting {
  explicit Waiting(const Tensors& tensors, StageOptions options = ExactOptions())
      : pipeline(options, 1), stage(pipeline.stage(0)), batch(2, 9, 1, options.config.vocab_size) {
    pipeline.Load(testing::LookupIn(tensors), Version(0), true);
    EXPECT_TRUE(stage.Forward(key, Version(0), batch.tokens, {}, true).ok());
    EXPECT_TRUE(stage.Backward(key, {}).ok());
  }
  Pipeline pipeline;
  Stage& stage;
  Batch batch;
  TaskKey key = KeyOf(0, 0);
};

Tensors InitialState(const StageOptions& options = ExactOptions()) {
  Pipeline pipeline(options, 1);
  pipeline.InitRandom(7);
  return pipeline.Snapshot();
}

TEST(ExactStageTest, AContributionBeyondTheBoundIsNamedAndAddsNothing) {
  Tensors tensors = InitialState();
  const std::string name = "model.layers.3.mlp.up_proj.weight";
  const std::int64_t high = 140;
  tensors.at("optimizer.scale." + name).data = Bytes::Copy(&high, sizeof high);
  Waiting waiting(tensors);
  const Status status = waiting.stage.Fold(waiting.key);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(name), HasSubstr("microbatch 0 of step 0")));
  EXPECT_THAT(ElementsOf<std::int64_t>(waiting.stage.Accumulator(Step(0), 0).elements), Each(0));
}

TEST(ExactStageTest, AHigherScaleLevelBeginsTheStepAnewWithRoomForMore) {
  Waiting waiting(WithScale(InitialState(), 140));
  unsigned level = 0;
  while (waiting.stage.Fold(waiting.key).code() == StatusCode::kOutOfRange) {
    ASSERT_TRUE(waiting.stage.SetScaleLevel(Step(0), ++level).ok());
  }
  EXPECT_EQ(waiting.stage.ScaleLevel(Step(0)), level);
  EXPECT_GT(level, 1u);
  const GradientSum sum = waiting.stage.Accumulator(Step(0), 0);
  EXPECT_THAT(sum.exponents, Each(140 - static_cast<int>(level) * optim::kScaleLevelBits));
  EXPECT_THAT(ElementsOf<std::int64_t>(sum.elements), Contains(Not(0)));

  ASSERT_TRUE(waiting.stage.SetScaleLevel(Step(0), level).ok());
  EXPECT_THAT(ElementsOf<std::int64_t>(waiting.stage.Accumulator(Step(0), 0).elements), Each(0));
  waiting.stage.ReleaseStep(Step(0));
  EXPECT_EQ(waiting.stage.ScaleLevel(Step(0)), 0u);
}

TEST(ExactStageTest, AStepAtAHigherScaleLevelIsTheSameToItsResolution) {
  const Tensors initial = InitialState();
  Tensors trained[2];
  for (const unsigned level : {0U, 1U}) {
    Waiting waiting(initial);
    ASSERT_TRUE(waiting.stage.SetScaleLevel(Step(0), level).ok());
    ASSERT_TRUE(waiting.stage.Fold(waiting.key).ok());
    waiting.pipeline.Apply(0, 1.0, 1e-2);
    trained[level] = waiting.pipeline.Snapshot();
  }
  for (const auto& [name, tensor] : trained[0]) {
    if (name.starts_with("optimizer.scale.")) {
      EXPECT_NEAR(NumberIn(trained[1], name), NumberIn(trained[0], name), 1) << name;
    } else if (name.starts_with("optimizer.exp_avg.")) {
      EXPECT_LT(testing::RelativeDistance(testing::FloatsOf(trained[1].at(name)),
                                          testing::FloatsOf(tensor)),
                1e-4)
          << name;
    }
  }
}

TEST(ExactStageTest, RefusesScaleLevelsThatDoNotExist) {
  Pipeline exact(ExactOptions(), 1);
  EXPECT_TRUE(exact.stage(0).SetScaleLevel(Step(0), optim::kScaleLevelMax).ok());
  EXPECT_EQ(exact.stage(0).SetScaleLevel(Step(0), optim::kScaleLevelMax + 1).code(),
            StatusCode::kInvalidArgument);
  StageOptions options = ExactOptions();
  options.accumulation = api::Accumulation::kFloat;
  Pipeline floats(options, 1);
  EXPECT_TRUE(floats.stage(0).SetScaleLevel(Step(0), 0).ok());
  EXPECT_EQ(floats.stage(0).SetScaleLevel(Step(0), 1).code(), StatusCode::kInvalidArgument);
}

TEST(ExactStageTest, AContributionThatIsNotFiniteAddsNothingAndIsRemembered) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Tensors tensors = InitialState();
    checkpoint::NamedTensor& gain = tensors.at("model.layers.2.input_layernorm.weight");
    std::vector<float> values = testing::FloatsOf(gain);
    values[3] = bad;
    gain.data = Bytes::Copy(values.data(), values.size() * sizeof(float));
    Waiting waiting(tensors);
    EXPECT_TRUE(waiting.stage.Accumulator(Step(0), 0).finite);
    EXPECT_TRUE(waiting.stage.Fold(waiting.key).ok());
    EXPECT_EQ(waiting.stage.Fold(waiting.key).code(), StatusCode::kNotFound) << "folded once";
    const GradientSum sum = waiting.stage.Accumulator(Step(0), 0);
    EXPECT_FALSE(sum.finite);
    EXPECT_THAT(ElementsOf<std::int64_t>(sum.elements), Each(0));
    ASSERT_TRUE(waiting.stage.SetScaleLevel(Step(0), 0).ok());
    EXPECT_TRUE(waiting.stage.Accumulator(Step(0), 0).finite) << "a step begun anew";
  }
}

TEST(ExactStageTest, ExponentsBelongToTheVersionThatAStepReads) {
  for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
    StageOptions options = ExactOptions();
    options.step_mode = mode;
    const bool delayed = mode == api::StepMode::kDelayed;
    Pipeline pipeline(options, 1);
    pipeline.InitRandom(7);
    Stage& stage = pipeline.stage(0);
    std::vector<std::vector<int>> exponents;
    for (std::uint64_t step = 0; step < 4; ++step) {
      TrainStep(pipeline, step, delayed ? (step > 0 ? step - 1 : 0) : step);
      exponents.push_back(stage.Accumulator(Step(step), 0).exponents);
      const Tensors tensors = pipeline.Snapshot();
      const std::string prefix =
          delayed && step > 0 ? "optimizer.previous_scale." : "optimizer.scale.";
      for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
        EXPECT_EQ(exponents.back()[i], NumberIn(tensors, prefix + stage.parameters()[i].name));
      }
      pipeline.Apply(step, 0.5, 1e-2);
    }
    EXPECT_THAT(exponents[0], Each(optim::StartExponent(optim::ContributionBits(kMicrobatches))));
    EXPECT_EQ(exponents[1] == exponents[0], delayed);
    EXPECT_NE(exponents[2], exponents[0]);
  }
}

TEST(ExactStageTest, ASkippedStepKeepsTheExponents) {
  Pipeline pipeline(ExactOptions(), 1);
  pipeline.InitRandom(7);
  for (std::uint64_t step = 0; step < 2; ++step) {
    TrainStep(pipeline, step, step);
    pipeline.Apply(step, 1.0, 1e-2, /*skip=*/step == 1);
  }
  const auto after = pipeline.stage(0).Accumulator(Step(2), 0).exponents;
  Pipeline without(ExactOptions(), 1);
  without.InitRandom(7);
  TrainStep(without, 0, 0);
  without.Apply(0, 1.0, 1e-2);
  EXPECT_EQ(after, without.stage(0).Accumulator(Step(1), 0).exponents);
}

TEST(ExactStageTest, TheStateHasTheExponentsAndGoesOnFromThem) {
  StageOptions options = ExactOptions();
  options.step_mode = api::StepMode::kDelayed;
  Pipeline original(options, 2);
  original.InitRandom(7);
  for (std::uint64_t step = 0; step < 3; ++step) {
    TrainStep(original, step, step > 0 ? step - 1 : 0);
    original.Apply(step, 0.5, 1e-2);
  }
  Pipeline copy(options, 2);
  copy.Load(testing::LookupIn(original.Snapshot()), Version(3), true);
  Pipeline changed(options, 2);
  changed.Load(testing::LookupIn(WithScale(original.Snapshot(), 20)), Version(3), true);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(copy.stage(s).StateDigest(), original.stage(s).StateDigest());
    EXPECT_NE(changed.stage(s).StateDigest(), original.stage(s).StateDigest());
  }
  for (Pipeline* pipeline : {&original, &copy}) {
    TrainStep(*pipeline, 3, 2);
    TrainStep(*pipeline, 4, 3);
    pipeline->Apply(3, 0.5, 1e-2);
    pipeline->Apply(4, 0.5, 1e-2);
  }
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(copy.stage(s).StateDigest(), original.stage(s).StateDigest());
  }
}

TEST(ExactStageTest, AStateOfAJobThatSummedFloatsStartsWithTheFixedExponents) {
  StageOptions options = ExactOptions();
  options.accumulation = api::Accumulation::kFloat;
  const Tensors tensors = InitialState(options);
  EXPECT_THAT(tensors, Not(Contains(Key("optimizer.scale.model.norm.weight"))));
  Pipeline exact(ExactOptions(), 1);
  exact.Load(testing::LookupIn(tensors), Version(0), true);
  EXPECT_EQ(NumberIn(exact.Snapshot(), "optimizer.scale.model.norm.weight"),
            optim::StartExponent(optim::ContributionBits(kMicrobatches)));
}

/// A model with a boundary whose subspace every update turns.
StageOptions TurningOptions(std::uint64_t microbatches) {
  StageOptions options = ExactOptions();
  options.microbatches = microbatches;
  options.boundary = {.codec = api::BoundaryCodec::kSubspace,
                      .coefficients = api::NumberCodec::kNone,
                      .rank = 6,
                      .refreshSteps = 1,
                      .layers = std::vector<std::uint64_t>{2}};
  options.seed = 7;
  return options;
}

// A sum of squares of gradients, weighted 1/M, turns the basis. If its first sum were rounded to
// zeros, the basis would stand still for ever.
TEST(ExactStageTest, ASubspaceTurnsHoweverManyMicrobatchesAStepHas) {
  for (const std::uint64_t microbatches : {1, 1 << 10, 1 << 16, 1 << 20}) {
    SCOPED_TRACE(microbatches);
    const StageOptions options = TurningOptions(microbatches);
    Pipeline pipeline(options, 1);
    pipeline.InitRandom(options.seed);
    const auto before = testing::FloatsOf(pipeline.Snapshot().at(kBasisName));
    const Batch batch(2, 9, 1, options.config.vocab_size);
    pipeline.Train(0, 0, Version(0), batch.tokens);
    pipeline.Apply(0, 1.0, 1e-2);
    EXPECT_NE(testing::FloatsOf(pipeline.Snapshot().at(kBasisName)), before);
  }
}

TEST(ExactStageTest, WhatTurnsASubspaceStartsWithAnExponentOfItsOwnAlsoAfterAStateOfFloats) {
  const StageOptions options = TurningOptions(kMicrobatches);
  StageOptions of_floats = options;
  of_floats.accumulation = api::Accumulation::kFloat;
  Pipeline exact(options, 1);
  exact.Load(testing::LookupIn(InitialState(of_floats)), Version(0), true);
  const Tensors tensors = exact.Snapshot();
  EXPECT_EQ(NumberIn(tensors, std::string("optimizer.scale.") + kBasisName),
            optim::StartExponentOfSquares(kMicrobatches));
  EXPECT_EQ(NumberIn(tensors, "optimizer.scale.model.norm.weight"),
            optim::StartExponent(optim::ContributionBits(kMicrobatches)));
}

class LentSumTest : public ::testing::TestWithParam<api::Accumulation> {};

TEST_P(LentSumTest, StaysAsItWasWhenMoreIsFolded) {
  StageOptions options = ExactOptions();
  options.accumulation = GetParam();
  Pipeline pipeline(options, 1);
  pipeline.InitRandom(7);
  const Batch first(2, 9, 1, options.config.vocab_size);
  const Batch second(2, 9, 2, options.config.vocab_size);
  pipeline.Train(0, 0, Version(0), first.tokens);
  const Bytes lent = pipeline.stage(0).Accumulator(Step(0), 0).elements;
  const std::string before(lent.text());
  pipeline.Train(0, 1, Version(0), second.tokens);
  EXPECT_EQ(lent.text(), before);
  EXPECT_NE(pipeline.stage(0).Accumulator(Step(0), 0).elements.text(), before);
  pipeline.stage(0).ReleaseStep(Step(0));
  pipeline.Train(0, 2, Version(0), second.tokens);
  EXPECT_EQ(lent.text(), before) << "the step was over";
}

INSTANTIATE_TEST_SUITE_P(Accumulations, LentSumTest,
                         ::testing::Values(api::Accumulation::kFloat, api::Accumulation::kExact));

}  // namespace
}  // namespace swarm::model
