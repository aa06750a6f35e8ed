#include "worker/model/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "api/format/enum_names.h"
#include "worker/checkpoint/pieces.h"
#include "worker/model/testing/models.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::ElementsOf;
using testing::KeyOf;
using testing::Pipeline;
using testing::RelativeDistance;
using testing::SmallConfig;
using testing::TextOf;

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

/// A stage that is the whole small model, with weights.
std::unique_ptr<Stage> MakeWhole(const StageOptions& options) {
  Result<std::unique_ptr<Stage>> stage = Stage::Create(options);
  EXPECT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(7);
  return std::move(*stage);
}

StatusCode CodeOfForward(Stage& stage, Version version, const TokenBatch& tokens,
                         const Bytes& input = {}) {
  return stage.Forward(KeyOf(0, 99), version, tokens, input, true).status().code();
}

TEST(StageTest, MicrobatchesAddUpToTheBatch) {
  StageOptions options = SmallOptions();
  Pipeline once(options, 1);
  options.microbatches = 4;
  Pipeline parts(options, 1);
  once.InitRandom(7);
  parts.InitRandom(7);
  const Batch batch(8, 9, 5, options.config.vocab_size);
  const double expected = once.Train(0, 0, Version(0), batch.tokens);
  double mean = 0;
  for (std::uint64_t m = 0; m < 4; ++m) {
    mean += parts.Train(0, m, Version(0), {2, 9, batch.tokens.ids.subspan(m * 18, 18)}) / 4;
  }
  EXPECT_NEAR(mean, expected, 1e-6 * expected);
  const auto gradients = parts.Gradients(0);
  for (const auto& [name, gradient] : once.Gradients(0)) {
    EXPECT_LT(RelativeDistance(gradients.at(name), gradient), 2e-6) << name;
  }
}

TEST(StageTest, SumsOfTwoStepsAreApart) {
  Pipeline pipeline(SmallOptions(), 2);
  pipeline.InitRandom(7);
  const Batch first(2, 9, 1, SmallConfig().vocab_size);
  const Batch second(2, 9, 2, SmallConfig().vocab_size);
  pipeline.Train(4, 0, Version(0), first.tokens);
  const auto alone = TextOf(pipeline.Reduce(4));
  pipeline.Train(5, 0, Version(0), second.tokens);
  EXPECT_EQ(TextOf(pipeline.Reduce(4)), alone);
  EXPECT_NE(TextOf(pipeline.Reduce(5)), alone);

  Stage& stage = pipeline.stage(0);
  ASSERT_TRUE(stage.Forward(KeyOf(4, 1), Version(0), first.tokens, {}, true).ok());
  stage.ReleaseStep(Step(4));
  EXPECT_EQ(stage.Backward(KeyOf(4, 1), {}).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ElementsOf<float>(pipeline.stage(0).Accumulator(Step(4), 0).elements),
              ::testing::Each(0.0F))
      << "a released sum begins anew";
}

TEST(StageTest, DelayedModeReadsTheVersionBeforeTheNewest) {
  StageOptions options = SmallOptions();
  options.step_mode = api::StepMode::kDelayed;
  Pipeline pipeline(options, 2);
  pipeline.InitRandom(7);
  const Batch batch(2, 9, 1, options.config.vocab_size);
  std::vector<double> losses;  // of version v when it was the newest
  for (std::uint64_t step = 0; step < 4; ++step) {
    const Version newest(step);
    losses.push_back(pipeline.Forward(step, 50, newest, batch.tokens, false));
    if (step > 0) {
      EXPECT_EQ(pipeline.Forward(step, 51, Version(step - 1), batch.tokens, false),
                losses[step - 1]);
    }
    pipeline.Train(step, 0, Version(step > 0 ? step - 1 : 0), batch.tokens);
    pipeline.Apply(step, 1.0, 1e-2);
  }
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(CodeOfForward(pipeline.stage(0), Version(2), batch.tokens), StatusCode::kNotFound);
  EXPECT_EQ(CodeOfForward(pipeline.stage(0), Version(3), batch.tokens), StatusCode::kOk);
  EXPECT_EQ(CodeOfForward(pipeline.stage(0), Version(5), batch.tokens), StatusCode::kNotFound);
}

TEST(StageTest, DelayedModeFinishesABackwardAfterTheNextVersionWasMade) {
  StageOptions options = SmallOptions();
  options.step_mode = api::StepMode::kDelayed;
  Pipeline undisturbed(options, 2);
  Pipeline overlapped(options, 2);
  const Batch first(2, 9, 1, options.config.vocab_size);
  const Batch second(2, 9, 2, options.config.vocab_size);
  for (Pipeline* pipeline : {&undisturbed, &overlapped}) {
    pipeline->InitRandom(7);
    pipeline->Train(0, 0, Version(0), first.tokens);
  }
  undisturbed.Train(1, 0, Version(0), second.tokens);
  overlapped.Forward(1, 0, Version(0), second.tokens);
  overlapped.Apply(0, 1.0, 1e-2);
  overlapped.BackwardAndFold(1, 0);
  EXPECT_EQ(TextOf(overlapped.Reduce(1)), TextOf(undisturbed.Reduce(1)));
}

TEST(StageTest, SyncModeKeepsOneVersionAndNoGraphOfAnOlderOne) {
  Pipeline pipeline(SmallOptions(), 1);
  pipeline.InitRandom(7);
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  pipeline.Train(0, 0, Version(0), batch.tokens);
  pipeline.Forward(0, 1, Version(0), batch.tokens);
  pipeline.Apply(0, 1.0, 1e-2);
  EXPECT_EQ(pipeline.stage(0).Backward(KeyOf(0, 1), {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(CodeOfForward(pipeline.stage(0), Version(0), batch.tokens), StatusCode::kNotFound);
}

TEST(StageTest, ASkippedUpdateAdvancesTheVersionAndNothingElse) {
  for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
    StageOptions options = SmallOptions();
    options.step_mode = mode;
    Pipeline pipeline(options, 1);
    pipeline.InitRandom(7);
    const Batch batch(2, 9, 1, options.config.vocab_size);
    const double before = pipeline.Train(0, 0, Version(0), batch.tokens);
    pipeline.Apply(0, 1.0, 1e-2, /*skip=*/true);
    EXPECT_EQ(pipeline.stage(0).version(), Version(1));
    EXPECT_EQ(pipeline.Forward(1, 0, Version(1), batch.tokens), before);
    EXPECT_EQ(pipeline.Snapshot().at("optimizer.step.model.norm.weight").data.text(),
              std::string_view("\0\0\0\0\0\0\0\0", 8));
  }
}

TEST(StageTest, FoldsATaskOnce) {
  const auto stage = MakeWhole(SmallOptions());
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  const TaskKey key = KeyOf(0, 0);
  EXPECT_EQ(stage->Fold(key).code(), StatusCode::kNotFound) << "nothing waits yet";
  ASSERT_TRUE(stage->Forward(key, Version(0), batch.tokens, {}, true).ok());
  EXPECT_EQ(stage->Fold(key).code(), StatusCode::kNotFound) << "not differentiated yet";
  ASSERT_TRUE(stage->Backward(key, {}).ok());
  EXPECT_EQ(stage->Forward(key, Version(0), batch.tokens, {}, true).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(stage->Backward(key, {}).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(stage->Fold(key).ok());
  EXPECT_EQ(stage->Fold(key).code(), StatusCode::kNotFound);
}

TEST(StageTest, ForgetsADroppedTask) {
  const auto stage = MakeWhole(SmallOptions());
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  ASSERT_TRUE(stage->Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true).ok());
  ASSERT_TRUE(stage->Forward(KeyOf(0, 1), Version(0), batch.tokens, {}, true).ok());
  ASSERT_TRUE(stage->Backward(KeyOf(0, 1), {}).ok());
  stage->Drop(KeyOf(0, 0));
  stage->Drop(KeyOf(0, 1));
  stage->Drop(KeyOf(0, 2));
  EXPECT_EQ(stage->Backward(KeyOf(0, 0), {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(stage->Fold(KeyOf(0, 1)).code(), StatusCode::kNotFound);
  EXPECT_THAT(ElementsOf<float>(stage->Accumulator(Step(0), 0).elements), ::testing::Each(0.0F));
}

TEST(StageTest, RefusesInputsOfWrongSizes) {
  Pipeline pipeline(SmallOptions(), 2);
  pipeline.InitRandom(7);
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  Stage& first = pipeline.stage(0);
  TokenBatch tokens = batch.tokens;
  tokens.sequences = 3;
  EXPECT_EQ(CodeOfForward(first, Version(0), tokens), StatusCode::kInvalidArgument);
  tokens = {2, 1, batch.tokens.ids.first(2)};
  EXPECT_EQ(CodeOfForward(first, Version(0), tokens), StatusCode::kInvalidArgument);
  std::vector<std::int32_t> ids(18, static_cast<std::int32_t>(SmallConfig().vocab_size));
  EXPECT_EQ(CodeOfForward(first, Version(0), {2, 9, ids}), StatusCode::kInvalidArgument);
  ids.assign(18, ~static_cast<std::int32_t>(SmallConfig().vocab_size));
  EXPECT_EQ(CodeOfForward(first, Version(0), {2, 9, ids}), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfForward(pipeline.stage(1), Version(0), batch.tokens, Bytes::Copy("short")),
            StatusCode::kDataLoss);
  const Bytes groups[] = {Bytes::Copy("three floats")};
  EXPECT_EQ(first.Apply(groups, 1, 1, false).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeWhole(SmallOptions())->Logits(Version(0), {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(first.Logits(Version(0), batch.tokens).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(StageTest, ATokenThatIsNotLearnedIsReadAndCountsNothingAsALabel) {
  const StageOptions options = SmallOptions();
  const Batch all(2, 9, 3, options.config.vocab_size);
  // The prompts: the first five tokens of each sequence.
  const auto train = [&](bool masked, std::uint64_t sequence) {
    std::vector<std::int32_t> ids(all.ids.begin() + static_cast<std::ptrdiff_t>(9 * sequence),
                                  all.ids.begin() + static_cast<std::ptrdiff_t>(9 * sequence + 9));
    for (std::size_t i = 0; masked && i < 5; ++i) ids[i] = ~ids[i];
    Pipeline pipeline(options, 2);
    pipeline.InitRandom(7);
    const double loss = pipeline.Train(0, 0, Version(0), {1, 9, ids});
    return std::pair(loss, pipeline.Gradients(0));
  };
  // The loss of all is that of the prompt's labels and that of the answer's.
  std::vector<std::int32_t> answer_masked(all.ids.begin(), all.ids.begin() + 9);
  for (std::size_t i = 5; i < 9; ++i) answer_masked[i] = ~answer_masked[i];
  Pipeline rest(options, 2);
  rest.InitRandom(7);
  const double of_prompt = rest.Train(0, 0, Version(0), {1, 9, answer_masked});
  const auto gradients_of_prompt = rest.Gradients(0);
  const auto [of_all, gradients_of_all] = train(false, 0);
  auto [of_answer, gradients] = train(true, 0);
  EXPECT_NEAR(of_answer + of_prompt, of_all, 1e-6 * of_all);
  for (auto& [name, gradient] : gradients) {
    const auto& more = gradients_of_prompt.at(name);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += more[i];
    EXPECT_LT(RelativeDistance(gradient, gradients_of_all.at(name)), 1e-5) << name;
  }
}

TEST(StageTest, ABrokenGradientCanBeSentAgain) {
  Pipeline pipeline(SmallOptions(), 2);
  pipeline.InitRandom(7);
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  pipeline.Forward(0, 0, Version(0), batch.tokens);
  EXPECT_EQ(pipeline.stage(0).Backward(KeyOf(0, 0, 0), Bytes::Copy("short")).status().code(),
            StatusCode::kDataLoss);
  pipeline.BackwardAndFold(0, 0);
}

TEST(StageTest, RefusesADeviceThatIsNotThere) {
  StageOptions options = SmallOptions();
  options.device = "cuda:0";
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kUnavailable);
  options.device = "abacus";
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kUnavailable);
}

// bfloat16 keeps 8 bits: a product is off by 2^-9, and gradients of a few layers by a few percent.
TEST(StageTest, BFloat16IsCloseToFloat32) {
  StageOptions options = SmallOptions();
  Pipeline exact(options, 2);
  options.precision = api::Precision::kBF16;
  options.boundary.codec = api::BoundaryCodec::kBF16;
  Pipeline rounded(options, 2);
  exact.InitRandom(7);
  rounded.InitRandom(7);
  const Batch batch(4, 17, 1, options.config.vocab_size);
  const double expected = exact.Train(0, 0, Version(0), batch.tokens);
  const double actual = rounded.Train(0, 0, Version(0), batch.tokens);
  EXPECT_NEAR(actual, expected, 3e-3 * expected);
  EXPECT_NE(actual, expected);
  const auto gradients = rounded.Gradients(0);
  for (const auto& [name, gradient] : exact.Gradients(0)) {
    EXPECT_LT(RelativeDistance(gradients.at(name), gradient), 0.03) << name;
  }
}

// Binary16 keeps 11 bits, and its gradients between products are float32.
TEST(StageTest, Binary16IsCloserToFloat32ThanBFloat16) {
  StageOptions options = SmallOptions();
  const Batch batch(4, 17, 1, options.config.vocab_size);
  const auto train = [&](api::Precision precision) {
    options.precision = precision;
    Pipeline pipeline(options, 2);
    pipeline.InitRandom(7);
    const double loss = pipeline.Train(0, 0, Version(0), batch.tokens);
    return std::pair(loss, pipeline.Gradients(0));
  };
  const auto [expected, gradients] = train(api::Precision::kFP32);
  const auto [of_half, half] = train(api::Precision::kFP16);
  const auto [of_brain, brain] = train(api::Precision::kBF16);
  EXPECT_NEAR(of_half, expected, 0x1p-11 * expected);
  EXPECT_NE(of_half, expected);
  for (const auto& [name, gradient] : gradients) {
    const double distance = RelativeDistance(half.at(name), gradient);
    // 1.5 times the worst that was seen, of a query matrix: 8 times the error of an operand, 2^-11.
    EXPECT_LT(distance, 6e-3) << name;
    EXPECT_LT(2 * distance, RelativeDistance(brain.at(name), gradient)) << name;
  }
}

TEST(StageTest, WhatExceedsBinary16MakesTheLossNotFinite) {
  StageOptions options = SmallOptions();
  options.config.initializer_range = 1e5;
  const Batch batch(2, 9, 3, options.config.vocab_size);
  for (const auto precision : {api::Precision::kFP32, api::Precision::kFP16}) {
    options.precision = precision;
    Pipeline pipeline(options, 2);
    pipeline.InitRandom(7);
    EXPECT_EQ(std::isfinite(pipeline.Train(0, 0, Version(0), batch.tokens)),
              precision == api::Precision::kFP32);
  }
}

class SixteenBitsTest : public ::testing::TestWithParam<api::Precision> {};

TEST_P(SixteenBitsTest, ComputesWithTheUpdatedWeights) {
  StageOptions options = SmallOptions();
  options.precision = GetParam();
  for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
    options.step_mode = mode;
    Pipeline pipeline(options, 1);
    pipeline.InitRandom(7);
    const Batch batch(2, 9, 3, options.config.vocab_size);
    const double before = pipeline.Train(0, 0, Version(0), batch.tokens);
    pipeline.Apply(0, 1.0, 1e-2);
    EXPECT_LT(pipeline.Forward(1, 0, Version(1), batch.tokens, false), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, SixteenBitsTest,
                         ::testing::Values(api::Precision::kBF16, api::Precision::kFP16),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

/// Two steps of training, whose state the tests below move.
void TrainTwoSteps(Pipeline& pipeline, const TokenBatch& tokens) {
  for (std::uint64_t step = 0; step < 2; ++step) {
    pipeline.Train(step, 0, Version(step), tokens);
    pipeline.Apply(step, 0.5, 1e-2);
  }
}

TEST(StateTest, GoesOnFromASnapshotAsIfNothingHadHappenedAtAnyCut) {
  for (const auto type :
       {api::OptimizerType::kAdamW, api::OptimizerType::kLAMB, api::OptimizerType::kMuon}) {
    StageOptions options = SmallOptions();
    options.step_mode = api::StepMode::kDelayed;
    options.optimizer.type = type;
    options.config.tie_word_embeddings = true;
    const Batch batch(2, 9, 3, options.config.vocab_size);
    Pipeline original(options, 3);
    original.InitRandom(7);
    TrainTwoSteps(original, batch.tokens);
    Pipeline copy(options, 3);
    copy.Load(testing::LookupIn(original.Snapshot()), Version(2), true);
    Pipeline other_cut(options, 1);
    other_cut.Load(testing::LookupIn(original.Snapshot()), Version(2), true);
    for (std::size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(copy.stage(s).StateDigest(), original.stage(s).StateDigest());
    }
    for (Pipeline* pipeline : {&original, &copy, &other_cut}) {
      pipeline->Train(2, 0, Version(1), batch.tokens);
      pipeline->Apply(2, 0.5, 1e-2);
    }
    const double loss = original.Forward(3, 0, Version(3), batch.tokens);
    EXPECT_EQ(copy.Forward(3, 0, Version(3), batch.tokens), loss);
    EXPECT_NEAR(other_cut.Forward(3, 0, Version(3), batch.tokens), loss, 1e-6 * loss);
    for (std::size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(copy.stage(s).StateDigest(), original.stage(s).StateDigest());
    }
  }
}

TEST(StateTest, TheNextUpdateWaitsUntilTheStateHasBeenReadAndAForwardDoesNot) {
  Pipeline pipeline(SmallOptions(), 1);
  pipeline.InitRandom(7);
  const Batch batch(2, 9, 3, SmallConfig().vocab_size);
  pipeline.Train(0, 0, Version(0), batch.tokens);
  std::vector<checkpoint::NamedTensor> state = pipeline.stage(0).State();
  const Digest before = pipeline.stage(0).StateDigest();
  std::promise<void> forwarded;
  std::atomic<bool> updated = false;
  std::thread compute([&] {
    pipeline.Forward(0, 1, Version(0), batch.tokens, false);
    forwarded.set_value();
    pipeline.Apply(0, 1, 1e-2);
    updated = true;
  });
  forwarded.get_future().wait();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(checkpoint::CutState(state)->digest(), before);
  EXPECT_FALSE(updated);
  state.clear();
  compute.join();
  EXPECT_NE(pipeline.stage(0).StateDigest(), before);
}

TEST(StateTest, DigestSeesWeightsMomentsAndCount) {
  const auto stage = MakeWhole(SmallOptions());
  std::map<std::string, checkpoint::NamedTensor> tensors;
  for (auto& tensor : stage->Snapshot()) tensors.emplace(tensor.name, tensor);
  const Digest digest = stage->StateDigest();
  for (const std::string prefix : {"", "optimizer.exp_avg.", "optimizer.exp_avg_sq."}) {
    auto changed = tensors;
    checkpoint::NamedTensor& tensor = changed.at(prefix + "model.layers.2.mlp.up_proj.weight");
    std::string bytes(tensor.data.text());
    bytes[5] ^= 1;
    tensor.data = Bytes::Copy(bytes);
    ASSERT_TRUE(stage->Load(testing::LookupIn(changed), Version(0), true).ok());
    EXPECT_NE(stage->StateDigest(), digest) << prefix;
  }
  ASSERT_TRUE(stage->Load(testing::LookupIn(tensors), Version(0), true).ok());
  EXPECT_EQ(stage->StateDigest(), digest);
}

TEST(StateTest, AFailedLoadNamesTheTensorAndLeavesTheStageUnusable) {
  const auto stage = MakeWhole(SmallOptions());
  const Batch batch(2, 9, 3, SmallConfig().vocab_size);
  std::map<std::string, checkpoint::NamedTensor> tensors;
  for (auto& tensor : stage->Snapshot()) tensors.emplace(tensor.name, tensor);
  const std::string name = "model.layers.3.self_attn.k_proj.weight";

  auto missing = tensors;
  missing.erase(name);
  Status status = stage->Load(testing::LookupIn(missing), Version(0), false);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), ::testing::HasSubstr(name));
  EXPECT_EQ(CodeOfForward(*stage, Version(0), batch.tokens), StatusCode::kNotFound);

  auto turned = tensors;
  std::swap(turned.at(name).shape[0], turned.at(name).shape[1]);
  status = stage->Load(testing::LookupIn(turned), Version(0), false);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr(name));

  ASSERT_TRUE(stage->Load(testing::LookupIn(tensors), Version(0), false).ok());
  EXPECT_EQ(CodeOfForward(*stage, Version(0), batch.tokens), StatusCode::kOk);
}

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
