// A stage that is swapped computes what one that is resident computes.
#include "worker/model/swap/swap_stage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <utility>

#include "api/format/enum_names.h"
#include "worker/checkpoint/pieces.h"
#include "worker/device/testing/fake_device.h"
#include "worker/model/testing/models.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::KeyOf;
using testing::LookupIn;
using testing::Pipeline;
using testing::RelativeDistance;
using testing::SmallConfig;

constexpr std::uint64_t kMicrobatches = 4;
/// Room for two segments of a layer each, beside the inputs that tasks keep.
constexpr std::uint64_t kMemory = 180'000;

struct Case {
  std::string name;
  api::Accumulation sums = api::Accumulation::kExact;
  bool tied = false;
  api::Precision precision = api::Precision::kFP32;
  api::OptimizerType optimizer = api::OptimizerType::kAdamW;
  api::BoundaryCodec codec = api::BoundaryCodec::kNone;
  std::uint64_t stages = 1;
  api::StepMode mode = api::StepMode::kSync;
  std::uint64_t lora_rank = 0;
};

constexpr api::StepMode kModes[] = {api::StepMode::kSync, api::StepMode::kDelayed};

StageOptions ResidentOptions(const Case& of) {
  StageOptions options;
  options.config = SmallConfig();
  options.config.tie_word_embeddings = of.tied;
  options.microbatches = kMicrobatches;
  options.accumulation = of.sums;
  options.precision = of.precision;
  options.optimizer.type = of.optimizer;
  options.boundary.codec = of.codec;
  options.step_mode = of.mode;
  options.lora.rank = of.lora_rank;
  return options;
}

StageOptions Swapped(StageOptions options, std::uint64_t tasks = 3) {
  options.residency = api::Residency::kSwap;
  options.swap = {.memory = kMemory,
                  .scratch = std::filesystem::temp_directory_path(),
                  .tasks = tasks,
                  .task_bytes = 2 * 8 * 24 * sizeof(float)};
  return options;
}

/// Trains some steps, and gives the losses.
std::vector<double> TrainSteps(Pipeline& pipeline, std::uint64_t first, std::uint64_t count,
                               api::StepMode mode = api::StepMode::kSync) {
  std::vector<double> losses;
  for (std::uint64_t step = first; step < first + count; ++step) {
    const bool delayed = mode == api::StepMode::kDelayed && step > 0;
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const Batch batch(2, 9, 100 * step + m, SmallConfig().vocab_size);
      losses.push_back(pipeline.Train(step, m, Version(delayed ? step - 1 : step), batch.tokens));
    }
    pipeline.Apply(step, 0.9, 1e-3, /*skip=*/step == 2);
  }
  return losses;
}

class SwapStageTest : public ::testing::TestWithParam<Case> {};

TEST_P(SwapStageTest, GivesTheLossesAndTheStateOfAResidentOne) {
  const StageOptions options = ResidentOptions(GetParam());
  Pipeline resident(options, GetParam().stages);
  Pipeline swapped(Swapped(options), GetParam().stages);
  for (std::size_t s = 0; s < swapped.size(); ++s) {
    const auto& stage = dynamic_cast<const SwapStage&>(swapped.stage(s));
    EXPECT_GT(stage.plan().segments.size(), 2u) << "nothing comes and goes";
  }
  resident.InitRandom(7);
  swapped.InitRandom(7);
  const auto expected = TrainSteps(resident, 0, 4, GetParam().mode);
  const auto losses = TrainSteps(swapped, 0, 4, GetParam().mode);
  const auto state = swapped.Snapshot();
  const bool exact = GetParam().sums == api::Accumulation::kExact;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (exact) {
      EXPECT_EQ(losses[i], expected[i]) << "loss " << i;
    } else {
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "loss " << i;
    }
  }
  for (const auto& [name, tensor] : resident.Snapshot()) {
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_EQ(state.at(name).shape, tensor.shape) << name;
    if (exact || tensor.type == checkpoint::ElementType::kI64) {
      EXPECT_EQ(state.at(name).data.text(), tensor.data.text()) << name;
    } else {
      EXPECT_LT(RelativeDistance(testing::FloatsOf(state.at(name)), testing::FloatsOf(tensor)),
                1e-4)
          << name;
    }
  }
  EXPECT_EQ(state.size(), resident.Snapshot().size());
}

INSTANTIATE_TEST_SUITE_P(
    Models, SwapStageTest,
    ::testing::Values(Case{"Exact"}, Case{"ExactTied", api::Accumulation::kExact, true},
                      Case{"Float", api::Accumulation::kFloat},
                      Case{"FloatTied", api::Accumulation::kFloat, true},
                      Case{"BF16", api::Accumulation::kExact, false, api::Precision::kBF16},
                      Case{"Lamb", api::Accumulation::kExact, true, api::Precision::kFP32,
                           api::OptimizerType::kLAMB},
                      Case{"Muon", api::Accumulation::kExact, false, api::Precision::kFP32,
                           api::OptimizerType::kMuon},
                      Case{"TwoStagesInt8", api::Accumulation::kExact, true, api::Precision::kFP32,
                           api::OptimizerType::kAdamW, api::BoundaryCodec::kInt8, 2},
                      Case{.name = "Delayed", .mode = api::StepMode::kDelayed},
                      Case{.name = "Adapters", .tied = true, .lora_rank = 4},
                      Case{.name = "DelayedAdaptersBF16",
                           .precision = api::Precision::kBF16,
                           .mode = api::StepMode::kDelayed,
                           .lora_rank = 4},
                      Case{.name = "TwoStagesAdaptersFloat",
                           .sums = api::Accumulation::kFloat,
                           .stages = 2,
                           .lora_rank = 4},
                      Case{.name = "DelayedTied", .tied = true, .mode = api::StepMode::kDelayed},
                      Case{.name = "DelayedFloat",
                           .sums = api::Accumulation::kFloat,
                           .tied = true,
                           .mode = api::StepMode::kDelayed},
                      Case{.name = "DelayedBF16",
                           .precision = api::Precision::kBF16,
                           .mode = api::StepMode::kDelayed},
                      Case{.name = "DelayedMuon",
                           .optimizer = api::OptimizerType::kMuon,
                           .mode = api::StepMode::kDelayed},
                      Case{.name = "DelayedTwoStagesInt8",
                           .tied = true,
                           .codec = api::BoundaryCodec::kInt8,
                           .stages = 2,
                           .mode = api::StepMode::kDelayed}),
    [](const auto& info) { return info.param.name; });

/// The whole model in one stage.
std::unique_ptr<Stage> MakeStage(const StageOptions& options) {
  auto stage = Stage::Create(options);
  EXPECT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(7);
  return *std::move(stage);
}

TEST(SwapStageTogetherTest, TasksThatAreCollectedGiveWhatTheyGiveAlone) {
  const StageOptions options = ResidentOptions({"", api::Accumulation::kExact, true});
  const auto alone = MakeStage(options);
  const auto together = MakeStage(Swapped(options));
  ASSERT_EQ(together->tasks_at_once(), 3u);
  std::vector<double> losses;
  std::vector<std::unique_ptr<Batch>> owned;
  for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
    owned.push_back(std::make_unique<Batch>(2, 9, m, options.config.vocab_size));
    together->SubmitForward(KeyOf(0, m), Version(0), owned.back()->tokens, {}, true,
                            [&](const Result<ForwardResult>& result) {
                              ASSERT_TRUE(result.ok()) << result.status().ToString();
                              losses.push_back(result->loss);
                            });
    together->SubmitBackward(KeyOf(0, m), {}, [](const Result<BackwardResult>& result) {
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      EXPECT_TRUE(result->fits);
    });
  }
  EXPECT_TRUE(losses.empty()) << "they are collected";
  while (together->Work()) {
  }
  ASSERT_EQ(losses.size(), kMicrobatches);
  together->Drop(KeyOf(0, 2));
  for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
    const auto expected = alone->Forward(KeyOf(0, m), Version(0), owned[m]->tokens, {}, true);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(losses[m], expected->loss) << m;
    if (m == 2) {
      EXPECT_EQ(together->Fold(KeyOf(0, m)).code(), StatusCode::kNotFound) << "it was dropped";
      continue;
    }
    ASSERT_TRUE(alone->Backward(KeyOf(0, m), {}).ok());
    ASSERT_TRUE(alone->Fold(KeyOf(0, m)).ok());
    ASSERT_TRUE(together->Fold(KeyOf(0, m)).ok());
  }
  for (std::uint64_t g = 0; g < alone->groups().size(); ++g) {
    const GradientSum expected = alone->Accumulator(Step(0), g);
    const GradientSum sum = together->Accumulator(Step(0), g);
    EXPECT_EQ(sum.elements.text(), expected.elements.text()) << "group " << g;
    EXPECT_EQ(sum.exponents, expected.exponents);
  }
}

TEST(SwapStageTogetherTest, APartOfTheTasksThatPassedTogetherIsFoldedAsIfItHadPassedAlone) {
  StageOptions options = ResidentOptions({"", api::Accumulation::kFloat, true});
  options.microbatches = 3;
  const auto alone = MakeStage(options);
  const auto together = MakeStage(Swapped(options));
  std::vector<std::unique_ptr<Batch>> owned;
  for (std::uint64_t m = 0; m < 3; ++m) {
    owned.push_back(std::make_unique<Batch>(2, 9, m, options.config.vocab_size));
    const TokenBatch& tokens = owned.back()->tokens;
    together->SubmitForward(KeyOf(0, m), Version(0), tokens, {}, true,
                            [](const auto& result) { EXPECT_TRUE(result.ok()); });
    together->SubmitBackward(KeyOf(0, m), {}, [](const auto& result) { EXPECT_TRUE(result.ok()); });
    ASSERT_TRUE(alone->Forward(KeyOf(0, m), Version(0), tokens, {}, true).ok());
    ASSERT_TRUE(alone->Backward(KeyOf(0, m), {}).ok());
  }
  while (together->Work()) {
  }
  const auto floats = [](const Bytes& bytes) {
    return testing::FloatsOf({"", checkpoint::ElementType::kF32, {}, bytes});
  };
  const auto expect_equal = [&] {
    for (std::uint64_t g = 0; g < alone->groups().size(); ++g) {
      const Bytes expected = alone->Accumulator(Step(0), g).elements;
      const Bytes sum = together->Accumulator(Step(0), g).elements;
      EXPECT_LT(RelativeDistance(floats(sum), floats(expected)), 1e-5) << "group " << g;
    }
  };
  const auto fold = [&](std::uint64_t m) {
    ASSERT_TRUE(alone->Fold(KeyOf(0, m)).ok());
    ASSERT_TRUE(together->Fold(KeyOf(0, m)).ok());
  };
  fold(1);
  EXPECT_EQ(together->Fold(KeyOf(0, 1)).code(), StatusCode::kNotFound) << "once";
  expect_equal();
  fold(0);
  together->Drop(KeyOf(0, 2));
  expect_equal();
  EXPECT_EQ(together->Fold(KeyOf(0, 2)).code(), StatusCode::kNotFound);
}

/// Three tasks of a step in a stage in memory, and on their way through the segments of one that is
/// swapped.
class SwapStagePassTest : public ::testing::TestWithParam<api::Accumulation> {
 protected:
  SwapStagePassTest() {
    options_ = ResidentOptions({"", GetParam(), true});
    options_.microbatches = 3;
    resident_ = MakeStage(options_);
    swapped_ = MakeStage(Swapped(options_));
    for (std::uint64_t m = 0; m < 3; ++m) {
      owned_.push_back(std::make_unique<Batch>(2, 9, m, options_.config.vocab_size));
      const TokenBatch& tokens = owned_.back()->tokens;
      swapped_->SubmitForward(KeyOf(0, m), Version(0), tokens, {}, true,
                              [&](const auto& result) { answers_ += result.ok(); });
      swapped_->SubmitBackward(KeyOf(0, m), {},
                               [&](const auto& result) { answers_ += result.ok(); });
      EXPECT_TRUE(resident_->Forward(KeyOf(0, m), Version(0), tokens, {}, true).ok());
      EXPECT_TRUE(resident_->Backward(KeyOf(0, m), {}).ok());
    }
  }
  /// So many segments, and not the last one of a pass.
  void Pass(std::size_t segments) {
    for (std::size_t i = 0; i < segments; ++i) ASSERT_TRUE(swapped_->Work());
    ASSERT_TRUE(swapped_->InPass());
  }
  void End() {
    while (swapped_->Work()) {
    }
    EXPECT_FALSE(swapped_->InPass());
  }
  void Fold(std::uint64_t m) {
    ASSERT_TRUE(resident_->Fold(KeyOf(0, m)).ok());
    ASSERT_TRUE(swapped_->Fold(KeyOf(0, m)).ok());
  }
  void ExpectEqualSums() {
    for (std::uint64_t g = 0; g < resident_->groups().size(); ++g) {
      const Bytes expected = resident_->Accumulator(Step(0), g).elements;
      const Bytes sum = swapped_->Accumulator(Step(0), g).elements;
      if (GetParam() == api::Accumulation::kExact) {
        EXPECT_EQ(sum.text(), expected.text()) << "group " << g;
        continue;
      }
      const auto floats = [](const Bytes& bytes) {
        return testing::FloatsOf({"", checkpoint::ElementType::kF32, {}, bytes});
      };
      EXPECT_LT(RelativeDistance(floats(sum), floats(expected)), 1e-5) << "group " << g;
    }
  }
  std::size_t segments() const {
    return dynamic_cast<const SwapStage&>(*swapped_).plan().segments.size();
  }

  StageOptions options_;
  std::unique_ptr<Stage> resident_, swapped_;
  std::vector<std::unique_ptr<Batch>> owned_;
  int answers_ = 0;
};

TEST_P(SwapStagePassTest, ATaskIsDroppedWithinAPassAndTheOthersGoOn) {
  Pass(1);
  swapped_->Drop(KeyOf(0, 1));
  Pass(segments() - 1 + 2);
  swapped_->Drop(KeyOf(0, 2));
  End();
  EXPECT_EQ(answers_, 2 + 1) << "two forward, and one backward";
  for (const std::uint64_t m : {1, 2}) {
    EXPECT_EQ(swapped_->Fold(KeyOf(0, m)).code(), StatusCode::kNotFound) << m;
  }
  Fold(0);
  ExpectEqualSums();
}

TEST_P(SwapStagePassTest, AllTasksOfAStepAreReleasedWithinAPass) {
  Pass(segments() + 1);
  swapped_->ReleaseStep(Step(0));
  EXPECT_FALSE(swapped_->InPass());
  EXPECT_FALSE(swapped_->Work());
  EXPECT_EQ(answers_, 3) << "forward";
  EXPECT_EQ(swapped_->Fold(KeyOf(0, 0)).code(), StatusCode::kNotFound);
}

TEST_P(SwapStagePassTest, APassIsAbandonedAndTheStageIsOfUse) {
  Pass(segments() + 1);
  swapped_->Abandon();
  EXPECT_FALSE(swapped_->InPass());
  ASSERT_TRUE(swapped_->Forward(KeyOf(0, 7), Version(0), owned_[0]->tokens, {}, true).ok());
  ASSERT_TRUE(swapped_->Backward(KeyOf(0, 7), {}).ok());
  ASSERT_TRUE(swapped_->Fold(KeyOf(0, 7)).ok());
  ASSERT_TRUE(resident_->Fold(KeyOf(0, 0)).ok());
  ExpectEqualSums();
}

TEST_P(SwapStagePassTest, WhatPassesOnceMoreDoesSoWithinAnotherPass) {
  End();
  swapped_->Drop(KeyOf(0, 2));  // what passed together is of no use now
  const TokenBatch& tokens = owned_[2]->tokens;
  double loss = 0;
  swapped_->SubmitForward(KeyOf(0, 9), Version(0), tokens, {}, true,
                          [&](const auto& result) { loss = result.ok() ? result->loss : 0; });
  swapped_->SubmitBackward(KeyOf(0, 9), {}, [&](const auto& result) { answers_ += result.ok(); });
  Pass(segments() + 1);
  Fold(0);
  Fold(1);
  ExpectEqualSums();
  EXPECT_TRUE(swapped_->InPass());
  End();
  EXPECT_EQ(answers_, 7);
  const auto expected = resident_->Forward(KeyOf(0, 9), Version(0), tokens, {}, false);
  ASSERT_TRUE(expected.ok());
  EXPECT_NEAR(loss, expected->loss, 1e-5 * expected->loss);
}

INSTANTIATE_TEST_SUITE_P(Sums, SwapStagePassTest,
                         ::testing::Values(api::Accumulation::kExact, api::Accumulation::kFloat),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(SwapStageTogetherTest, WhatIsAbandonedIsNeverAnswered) {
  const auto stage = MakeStage(Swapped(ResidentOptions({})));
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  bool answered = false;
  stage->SubmitForward(KeyOf(0, 0), Version(0), batch.tokens, {}, true,
                       [&](const auto&) { answered = true; });
  stage->Abandon();
  EXPECT_FALSE(stage->Work());
  EXPECT_FALSE(answered);
  EXPECT_TRUE(stage->Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true).ok());
}

/// The whole model in one stage, where a step reads the version before the newest.
Case DelayedCase() { return {.name = "", .tied = true, .mode = api::StepMode::kDelayed}; }

TEST(SwapStageDelayedTest, TasksOfTwoStepsPassEachWithTheVersionThatItsStepReads) {
  const StageOptions options = ResidentOptions(DelayedCase());
  const auto resident = MakeStage(options), swapped = MakeStage(Swapped(options));
  std::map<const Stage*, std::vector<double>> losses;
  std::vector<std::unique_ptr<Batch>> owned;
  for (const auto& stage : {resident.get(), swapped.get()}) {
    std::vector<double>& of_stage = losses[stage];
    const auto submit = [&](std::uint64_t step, std::uint64_t m, std::uint64_t version) {
      // The same tokens in both steps: only the weights differ.
      owned.push_back(std::make_unique<Batch>(2, 9, m, options.config.vocab_size));
      stage->SubmitForward(KeyOf(step, m), Version(version), owned.back()->tokens, {}, true,
                           [&](const Result<ForwardResult>& result) {
                             ASSERT_TRUE(result.ok()) << result.status().ToString();
                             of_stage.push_back(result->loss);
                           });
      stage->SubmitBackward(KeyOf(step, m), {}, [](const Result<BackwardResult>& result) {
        ASSERT_TRUE(result.ok()) << result.status().ToString();
      });
    };
    const auto work_and_fold = [&](std::vector<TaskKey> keys) {
      while (stage->Work()) {
      }
      for (const TaskKey& key : keys) ASSERT_TRUE(stage->Fold(key).ok());
    };
    const auto apply = [&](std::uint64_t step) {
      std::vector<Bytes> sums;
      for (std::uint64_t g = 0; g < stage->groups().size(); ++g) {
        sums.push_back(stage->Accumulator(Step(step), g).elements);
      }
      ASSERT_TRUE(stage->Apply(sums, 0.9, 1e-2, /*skip=*/false).ok());
      stage->ReleaseStep(Step(step));
    };
    submit(0, 0, 0);
    submit(1, 0, 0);
    work_and_fold({KeyOf(0, 0), KeyOf(1, 0)});
    for (std::uint64_t step = 0; step < 3; ++step) {
      apply(step);  // while the next one is computed
      submit(step + 2, 0, step + 1);
      submit(step + 1, 3, step + 1);  // none of a job; whoever submits it gets what it asks for
      submit(step + 1, 1, step);
      submit(step + 1, 2, step);
      work_and_fold(
          {KeyOf(step + 2, 0), KeyOf(step + 1, 1), KeyOf(step + 1, 2), KeyOf(step + 1, 3)});
      EXPECT_NE(of_stage.rbegin()[3], of_stage.front()) << "the weights have changed";
    }
  }
  EXPECT_EQ(losses[swapped.get()], losses[resident.get()]);
  for (std::uint64_t step = 3; step < 5; ++step) {
    for (std::uint64_t g = 0; g < resident->groups().size(); ++g) {
      const GradientSum expected = resident->Accumulator(Step(step), g);
      const GradientSum sum = swapped->Accumulator(Step(step), g);
      EXPECT_EQ(sum.elements.text(), expected.elements.text()) << "step " << step << " group " << g;
      EXPECT_EQ(sum.exponents, expected.exponents);
    }
  }
  EXPECT_EQ(swapped->StateDigest(), resident->StateDigest());
}

TEST(SwapStageDelayedTest, ABackwardGoesOnBehindTheNextVersionAndEndsBehindTheOneAfterThat) {
  const StageOptions options = Swapped(ResidentOptions(DelayedCase()));
  Pipeline undisturbed(options, 1), overlapped(options, 1);
  const Batch first(2, 9, 1, options.config.vocab_size), second(2, 9, 2, options.config.vocab_size);
  for (Pipeline* const pipeline : {&undisturbed, &overlapped}) {
    pipeline->InitRandom(7);
    pipeline->Train(0, 0, Version(0), first.tokens);
  }
  undisturbed.Train(1, 0, Version(0), second.tokens);
  overlapped.Forward(1, 0, Version(0), second.tokens);
  overlapped.Apply(0, 1.0, 1e-2);
  overlapped.BackwardAndFold(1, 0);
  EXPECT_EQ(testing::TextOf(overlapped.Reduce(1)), testing::TextOf(undisturbed.Reduce(1)));

  Stage& stage = overlapped.stage(0);
  // Of the step after, so that nothing but the version takes it away.
  ASSERT_TRUE(stage.Forward(KeyOf(2, 0), Version(0), first.tokens, {}, true).ok());
  ASSERT_TRUE(stage.Forward(KeyOf(2, 1), Version(1), first.tokens, {}, true).ok());
  overlapped.Apply(1, 1.0, 1e-2);
  EXPECT_EQ(stage.Backward(KeyOf(2, 0), {}).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(stage.Backward(KeyOf(2, 1), {}).ok());
  EXPECT_TRUE(stage.Forward(KeyOf(2, 0), Version(1), first.tokens, {}, true).ok())
      << "there is no graph any more";
  const auto forward = [&](std::uint64_t version) {
    return stage.Forward(KeyOf(2, 2), Version(version), first.tokens, {}, false).status().code();
  };
  EXPECT_EQ(forward(0), StatusCode::kNotFound);
  EXPECT_EQ(forward(1), StatusCode::kOk);
  EXPECT_EQ(forward(2), StatusCode::kOk);
  EXPECT_EQ(forward(3), StatusCode::kNotFound);
}

TEST(SwapStageDelayedTest, AStageThatBeginsAnewHasNoVersionBefore) {
  const StageOptions options = ResidentOptions(DelayedCase());
  Pipeline resident(options, 1), swapped(Swapped(options), 1);
  resident.InitRandom(7);
  swapped.InitRandom(8);
  TrainSteps(swapped, 0, 2, options.step_mode);
  swapped.Load(LookupIn(resident.Snapshot()), Version(0), /*optimizer=*/true);
  EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest());
  EXPECT_EQ(TrainSteps(swapped, 0, 2, options.step_mode),
            TrainSteps(resident, 0, 2, options.step_mode));
}

/// Two like stages in Delayed with floats: the one in memory, and one that has memory for an update
/// beside the tasks that pass.
class SwapStageBesideTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kTasks = 3;
  static constexpr std::uint64_t kEnough = 400'000;
  SwapStageBesideTest() {
    StageOptions swap = Swapped(options_);
    swap.swap.memory = kEnough;
    resident_ = MakeStage(options_);
    swapped_ = MakeStage(swap);
    const SwapPlan& plan = dynamic_cast<const SwapStage&>(*swapped_).plan();
    EXPECT_TRUE(plan.updates_beside);
    EXPECT_GT(plan.segments.size(), 3u) << "nothing comes and goes";
    for (Stage* const stage : {resident_.get(), swapped_.get()}) {
      Submit(stage, 0, Version(0));
      WorkAndFold(stage, 0);
      Apply(stage, 0);
      // Step 1 reads version 0, and is ready to be applied while step 2 reads version 1.
      Submit(stage, 1, Version(0));
      WorkAndFold(stage, 1);
    }
  }

  void Submit(Stage* stage, std::uint64_t step, Version version) {
    for (std::uint64_t m = 0; m < kTasks; ++m) {
      owned_.push_back(std::make_unique<Batch>(2, 9, 10 * step + m, options_.config.vocab_size));
      stage->SubmitForward(KeyOf(step, m), version, owned_.back()->tokens, {}, true,
                           [this, stage](const Result<ForwardResult>& result) {
                             ASSERT_TRUE(result.ok()) << result.status().ToString();
                             losses_[stage].push_back(result->loss);
                           });
      stage->SubmitBackward(KeyOf(step, m), {}, [](const Result<BackwardResult>& result) {
        ASSERT_TRUE(result.ok()) << result.status().ToString();
      });
    }
  }
  static void WorkAndFold(Stage* stage, std::uint64_t step) {
    while (stage->Work()) {
    }
    for (std::uint64_t m = 0; m < kTasks; ++m) ASSERT_TRUE(stage->Fold(KeyOf(step, m)).ok());
  }
  static std::vector<Bytes> SumsOf(Stage* stage, std::uint64_t step) {
    std::vector<Bytes> sums;
    for (std::uint64_t g = 0; g < stage->groups().size(); ++g) {
      sums.push_back(stage->Accumulator(Step(step), g).elements);
    }
    return sums;
  }
  static void Apply(Stage* stage, std::uint64_t step) {
    ASSERT_TRUE(stage->Apply(SumsOf(stage, step), 0.9, 1e-2, /*skip=*/false).ok());
    stage->ReleaseStep(Step(step));
  }
  /// Begins to apply a step to the one that is swapped.
  void SubmitApply(std::uint64_t step) {
    swapped_->SubmitApply(SumsOf(swapped_.get(), step), 0.9, 1e-2, /*skip=*/false,
                          [this](Status status) { applied_.push_back(std::move(status)); });
  }
  void ExpectEqual() {
    const std::vector<double>&expected = losses_[resident_.get()],
          &losses = losses_[swapped_.get()];
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "loss " << i;
    }
    const auto state = swapped_->Snapshot(), of_resident = resident_->Snapshot();
    ASSERT_EQ(state.size(), of_resident.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      ASSERT_EQ(state[i].name, of_resident[i].name);
      if (state[i].type == checkpoint::ElementType::kI64) {
        EXPECT_EQ(state[i].data.text(), of_resident[i].data.text()) << state[i].name;
      } else {
        EXPECT_LT(RelativeDistance(testing::FloatsOf(state[i]), testing::FloatsOf(of_resident[i])),
                  1e-4)
            << state[i].name;
      }
    }
  }

  const StageOptions options_ = ResidentOptions({.name = "",
                                                 .sums = api::Accumulation::kFloat,
                                                 .tied = true,
                                                 .mode = api::StepMode::kDelayed});
  std::unique_ptr<Stage> resident_, swapped_;
  std::vector<std::unique_ptr<Batch>> owned_;
  std::map<const Stage*, std::vector<double>> losses_;
  std::vector<Status> applied_;
};

TEST_F(SwapStageBesideTest, TasksPassWithTheVersionBeforeWhileSegmentsAreUpdated) {
  Submit(resident_.get(), 2, Version(1));
  WorkAndFold(resident_.get(), 2);
  Apply(resident_.get(), 1);
  Submit(resident_.get(), 3, Version(2));
  WorkAndFold(resident_.get(), 3);

  SubmitApply(1);
  EXPECT_TRUE(swapped_->Work()) << "a segment is updated";
  EXPECT_TRUE(swapped_->Work()) << "and another one";
  EXPECT_TRUE(applied_.empty());
  EXPECT_EQ(swapped_->version(), Version(1));
  Submit(swapped_.get(), 2, Version(1));
  do {
    EXPECT_TRUE(swapped_->Work()) << "a part has two versions already";
  } while (swapped_->InPass());
  EXPECT_EQ(losses_[swapped_.get()].size(), 3 * kTasks);
  WorkAndFold(swapped_.get(), 2);
  ASSERT_EQ(applied_.size(), 1u);
  EXPECT_TRUE(applied_.front().ok()) << applied_.front().ToString();
  swapped_->ReleaseStep(Step(1));
  EXPECT_EQ(swapped_->version(), Version(2));
  Submit(swapped_.get(), 3, Version(2));
  WorkAndFold(swapped_.get(), 3);
  EXPECT_LE(dynamic_cast<const SwapStage&>(*swapped_).peak_bytes(), kEnough);
  ExpectEqual();
}

TEST_F(SwapStageBesideTest, AnUpdateBeginsAndEndsWithinAPass) {
  Submit(resident_.get(), 2, Version(1));
  WorkAndFold(resident_.get(), 2);
  Apply(resident_.get(), 1);
  Submit(swapped_.get(), 2, Version(1));
  EXPECT_TRUE(swapped_->Work());
  EXPECT_TRUE(swapped_->InPass());
  SubmitApply(1);
  EXPECT_TRUE(swapped_->Work());
  swapped_->Settle();
  EXPECT_EQ(applied_.size(), 1u);
  EXPECT_TRUE(swapped_->InPass()) << "tasks go on with the version before";
  swapped_->ReleaseStep(Step(1));
  WorkAndFold(swapped_.get(), 2);
  ExpectEqual();
}

TEST_F(SwapStageBesideTest, TheVersionBeforeThatIsNotHeldAnyMore) {
  const Batch batch(2, 9, 1, options_.config.vocab_size);
  const auto forward = [&](std::uint64_t version) {
    return swapped_->Forward(KeyOf(7, 0), Version(version), batch.tokens, {}, false)
        .status()
        .code();
  };
  EXPECT_EQ(forward(0), StatusCode::kOk);
  SubmitApply(1);
  EXPECT_EQ(forward(0), StatusCode::kNotFound);
  EXPECT_EQ(forward(1), StatusCode::kOk);
  swapped_->Settle();
  EXPECT_EQ(forward(1), StatusCode::kOk);
  EXPECT_EQ(forward(2), StatusCode::kOk);
}

TEST_F(SwapStageBesideTest, WhatComesBehindAnUpdateFindsItEnded) {
  Apply(resident_.get(), 1);
  SubmitApply(1);
  swapped_->Settle();
  ASSERT_EQ(applied_.size(), 1u);
  swapped_->ReleaseStep(Step(1));
  ExpectEqual();
  for (Stage* const stage : {resident_.get(), swapped_.get()}) {
    Submit(stage, 2, Version(1));
    WorkAndFold(stage, 2);
    Submit(stage, 3, Version(2));
    WorkAndFold(stage, 3);
  }
  SubmitApply(2);
  Apply(swapped_.get(), 3);  // ends the one before
  ASSERT_EQ(applied_.size(), 2u);
  EXPECT_TRUE(applied_.back().ok());
  Apply(resident_.get(), 2);
  Apply(resident_.get(), 3);
  ExpectEqual();
}

TEST_F(SwapStageBesideTest, SumsThatDoNotFitChangeNothing) {
  swapped_->SubmitApply({Bytes::Copy("few")}, 1, 1e-2, /*skip=*/false,
                        [this](Status status) { applied_.push_back(std::move(status)); });
  ASSERT_EQ(applied_.size(), 1u);
  EXPECT_EQ(applied_.front().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(swapped_->version(), Version(1));
  ExpectEqual();
}

TEST_F(SwapStageBesideTest, AStageMayEndBeforeItsUpdate) {
  SubmitApply(1);
  swapped_.reset();
  EXPECT_TRUE(applied_.empty());
}

TEST(SwapStageStateTest, AStateMovesBetweenResidencies) {
  for (const api::StepMode mode : kModes) {
    const StageOptions options = ResidentOptions({.name = "", .tied = true, .mode = mode});
    Pipeline resident(options, 1), swapped(Swapped(options), 1), again(options, 1);
    resident.InitRandom(7);
    TrainSteps(resident, 0, 2, mode);
    swapped.Load(LookupIn(resident.Snapshot()), Version(2), /*optimizer=*/true);
    EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest());
    EXPECT_EQ(TrainSteps(swapped, 2, 2, mode), TrainSteps(resident, 2, 2, mode));
    again.Load(LookupIn(swapped.Snapshot()), Version(4), /*optimizer=*/true);
    EXPECT_EQ(again.stage(0).StateDigest(), resident.stage(0).StateDigest());
  }
}

TEST(SwapStageStateTest, DigestsOfWhatAnUpdateWroteAreKnown) {
  StageOptions options = ResidentOptions({});
  options.config.vocab_size = 100'000;  // tables of 9.6 MB: a piece of 4 MiB lies within each
  StageOptions swap = Swapped(options);
  swap.swap.memory = 200'000'000;
  Pipeline resident(options, 1), swapped(swap, 1);
  resident.InitRandom(7);
  swapped.InitRandom(7);
  EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest());
  TrainSteps(resident, 0, 1);
  TrainSteps(swapped, 0, 1);
  std::size_t known = 0;
  for (const checkpoint::NamedTensor& tensor : swapped.stage(0).State()) {
    const std::uint64_t size = checkpoint::SizeOf(tensor);
    for (std::uint64_t at = 0; tensor.elsewhere != nullptr && at < size; at += 4) {
      if (!tensor.elsewhere->KnownDigest(at, checkpoint::kPieceBytes)) continue;
      std::vector<std::byte> piece(checkpoint::kPieceBytes);
      ASSERT_TRUE(checkpoint::ReadBytes(tensor, at, piece).ok());
      EXPECT_EQ(*tensor.elsewhere->KnownDigest(at, piece.size()), ComputeDigest(piece));
      ++known;
    }
  }
  EXPECT_GE(known, 6u) << "of two tables and their moments";
  EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest());
}

TEST(SwapStageStateTest, DigestsOfTheVersionBeforeAreKnownFromWhenItWasWritten) {
  StageOptions options = ResidentOptions({.name = "", .mode = api::StepMode::kDelayed});
  options.config.vocab_size = 100'000;
  StageOptions swap = Swapped(options);
  swap.swap.memory = 200'000'000;
  Pipeline resident(options, 1), swapped(swap, 1);
  for (Pipeline* const pipeline : {&resident, &swapped}) {
    pipeline->InitRandom(7);
    const Batch batch(1, 9, 1, SmallConfig().vocab_size);
    for (std::uint64_t step = 0; step < 3; ++step) {
      pipeline->Train(step, 0, Version(step > 0 ? step - 1 : 0), batch.tokens);
      pipeline->Apply(step, 0.9, 1e-3);
    }
  }
  const std::vector<checkpoint::NamedTensor> state = swapped.stage(0).State();
  const auto first = checkpoint::FindFirstPieces(state);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  std::size_t whole = 0;
  for (const checkpoint::NamedTensor& tensor : state) {
    const std::uint64_t at = first->at(tensor.name);
    if (at + checkpoint::kPieceBytes > checkpoint::SizeOf(tensor)) continue;
    ++whole;
    const auto known = tensor.elsewhere->KnownDigest(at, checkpoint::kPieceBytes);
    ASSERT_TRUE(known) << tensor.name;
    std::vector<std::byte> piece(checkpoint::kPieceBytes);
    ASSERT_TRUE(checkpoint::ReadBytes(tensor, at, piece).ok());
    EXPECT_EQ(*known, ComputeDigest(piece)) << tensor.name;
  }
  EXPECT_EQ(whole, 8u) << "two tables of two versions, and their moments";
  EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest());
}

class SwapStageModeTest : public ::testing::TestWithParam<api::StepMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SwapStageModeTest, ::testing::ValuesIn(kModes),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST_P(SwapStageModeTest, AStateThatIsMappedStaysWhenTheStageGoesOn) {
  Pipeline swapped(Swapped(ResidentOptions({.name = "", .mode = GetParam()})), 1);
  swapped.InitRandom(7);
  std::map<std::string, std::string> before;
  for (const auto& [name, tensor] : swapped.Snapshot()) before[name] = tensor.data.text();
  std::vector<checkpoint::NamedTensor> kept;
  std::uint64_t copied = 0;
  for (const checkpoint::NamedTensor& tensor : swapped.stage(0).State()) {
    kept.push_back(*checkpoint::Keep(tensor, &copied));
  }
  EXPECT_LT(copied, 4096u) << "the steps of the moments are in memory";
  TrainSteps(swapped, 0, 2, GetParam());
  const auto after = swapped.Snapshot();
  for (const checkpoint::NamedTensor& tensor : kept) {
    EXPECT_EQ(tensor.data.text(), before.at(tensor.name)) << tensor.name;
    if (tensor.type == checkpoint::ElementType::kI64) continue;
    EXPECT_NE(tensor.data.text(), after.at(tensor.name).data.text()) << tensor.name;
  }
}

TEST(SwapStageStateTest, SumsThatOthersReadDoNotChange) {
  Pipeline swapped(Swapped(ResidentOptions({})), 1);
  swapped.InitRandom(7);
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  swapped.Train(0, 0, Version(0), batch.tokens);
  const GradientSum before = swapped.stage(0).Accumulator(Step(0), 0);
  const std::string bits(before.elements.text());
  swapped.Train(0, 1, Version(0), batch.tokens);
  EXPECT_EQ(before.elements.text(), bits);
  EXPECT_NE(swapped.stage(0).Accumulator(Step(0), 0).elements.text(), bits);
}

TEST(SwapStageStateTest, ASumIsReadOnAnotherThreadAsItWasWhenThatBegan) {
  Pipeline swapped(Swapped(ResidentOptions({})), 1);
  swapped.InitRandom(7);
  Stage& stage = swapped.stage(0);
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  swapped.Train(0, 0, Version(0), batch.tokens);
  const GradientSum before = stage.Accumulator(Step(0), 0);
  const std::string bits(before.elements.text());
  auto read = stage.BeginAccumulator(Step(0), 0);
  swapped.Train(0, 1, Version(0), batch.tokens);
  EXPECT_NE(stage.Accumulator(Step(0), 0).elements.text(), bits);
  stage.ReleaseStep(Step(0));
  Result<GradientSum> later = GradientSum();
  std::thread([&] { later = std::exchange(read, nullptr)(); }).join();
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  EXPECT_EQ(later->elements.text(), bits);
  EXPECT_EQ(later->squared_norms, before.squared_norms);
  EXPECT_EQ(later->exponents, before.exponents);
}

TEST(SwapStageStateTest, AnUpdateWithItsOwnSumsIsOneWithCopiesOfThem) {
  for (const api::Accumulation sums : {api::Accumulation::kFloat, api::Accumulation::kExact}) {
    const StageOptions options = Swapped(ResidentOptions({"", sums, true}));
    const auto own = MakeStage(options), copies = MakeStage(options);
    const Batch batch(2, 9, 1, options.config.vocab_size);
    for (Stage* const stage : {own.get(), copies.get()}) {
      ASSERT_TRUE(stage->Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true).ok());
      ASSERT_TRUE(stage->Backward(KeyOf(0, 0), {}).ok());
      ASSERT_TRUE(stage->Fold(KeyOf(0, 0)).ok());
      std::vector<GradientSum> of_groups;
      std::vector<Bytes> elements;
      for (std::uint64_t g = 0; g < stage->groups().size(); ++g) {
        of_groups.push_back(stage->Accumulator(Step(0), g));
        const Bytes& shown = of_groups.back().elements;
        elements.push_back(stage == own.get() ? shown : Bytes::Copy(shown.data(), shown.size()));
      }
      ASSERT_TRUE(stage->Apply(elements, 0.5, 1e-2, /*skip=*/false).ok());
      stage->ReleaseStep(Step(0));
    }
    EXPECT_EQ(own->StateDigest(), copies->StateDigest());
  }
}

TEST(SwapStageStateTest, NormsComeWithSumsUnlessTheyAreNotFinite) {
  for (const api::Accumulation sums : {api::Accumulation::kFloat, api::Accumulation::kExact}) {
    const auto stage = MakeStage(Swapped(ResidentOptions({"", sums})));
    const Batch batch(2, 9, 1, SmallConfig().vocab_size);
    ASSERT_TRUE(stage->Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true).ok());
    ASSERT_TRUE(stage->Backward(KeyOf(0, 0), {}).ok());
    ASSERT_TRUE(stage->Fold(KeyOf(0, 0)).ok());
    const GradientSum sum = stage->Accumulator(Step(0), 0);
    ASSERT_EQ(sum.squared_norms.size(), stage->parameters().size());
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      const ParameterSlot& slot = stage->parameters()[i];
      const auto of = [&]<typename T>(T*) {
        return std::span(reinterpret_cast<const T*>(sum.elements.data()) + slot.offset, slot.count);
      };
      const double expected =
          sums == api::Accumulation::kFloat
              ? optim::SquaredNorm(of(static_cast<float*>(nullptr)))
              : optim::SquaredNorm(of(static_cast<std::int64_t*>(nullptr)), sum.exponents[i]);
      EXPECT_GT(expected, 0);
      EXPECT_EQ(sum.squared_norms[i], expected) << slot.name;
    }
    ASSERT_TRUE(stage->Absorb(Step(0), 0, sum.elements, /*finite=*/false).ok());
    EXPECT_TRUE(stage->Accumulator(Step(0), 0).squared_norms.empty());
  }
}

TEST_P(SwapStageModeTest, WhatIsInUseStaysWithinTheMemory) {
  const StageOptions options = Swapped(ResidentOptions({.name = "", .mode = GetParam()}));
  Pipeline swapped(options, 1);
  swapped.InitRandom(7);
  TrainSteps(swapped, 0, 3, GetParam());
  const auto& stage = dynamic_cast<const SwapStage&>(swapped.stage(0));
  std::uint64_t parameters = 0;
  for (const ParameterGroup& group : stage.groups()) parameters += group.count;
  EXPECT_LE(stage.peak_bytes(), options.swap.memory);
  EXPECT_GT(parameters * SegmentBytes(options.precision), options.swap.memory)
      << "the state would fit as it is";
}

TEST_P(SwapStageModeTest, InputsThatWaitInTheTierChangeNothing) {
  const auto options =
      ResidentOptions({.name = "", .sums = api::Accumulation::kFloat, .mode = GetParam()});
  StageOptions in_memory = Swapped(options, kMicrobatches), in_tier = in_memory;
  in_tier.swap.task_bytes = in_tier.swap.memory / 32;  // as if eight of them filled their part
  std::vector<Digest> states;
  std::vector<std::vector<double>> losses;
  for (const StageOptions& of : {in_memory, in_tier}) {
    Pipeline swapped(of, 1);
    const auto& stage = dynamic_cast<const SwapStage&>(swapped.stage(0));
    EXPECT_EQ(stage.plan().inputs_in_tier, states.size() == 1);
    EXPECT_EQ(stage.plan().tasks, kMicrobatches);
    swapped.InitRandom(7);
    losses.push_back(TrainSteps(swapped, 0, 4, GetParam()));
    states.push_back(swapped.stage(0).StateDigest());
    EXPECT_LE(stage.peak_bytes(), of.swap.memory);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(states[0], states[1]);
}

/// The memory for segments, and whether the state is in memory or in a file.
struct Rooms {
  const char* name;
  std::uint64_t memory;
  bool state_in_memory;
};

class SwapStageDeviceTest : public ::testing::TestWithParam<Rooms> {};
INSTANTIATE_TEST_SUITE_P(Rooms, SwapStageDeviceTest,
                         ::testing::Values(Rooms{"ForTwoSegments", kMemory, false},
                                           Rooms{"AndForTheStateOnTheHost", 250'000, true}),
                         [](const auto& info) { return info.param.name; });
// make test-heavy
INSTANTIATE_TEST_SUITE_P(MoreRooms, SwapStageDeviceTest,
                         ::testing::Values(Rooms{"ForAThirdThatLeaves", 250'000, false}),
                         [](const auto& info) { return info.param.name; });

/// Weights cross to the device late, results and gradients leave it late, and none changes a bit.
TEST_P(SwapStageDeviceTest, OnADeviceItGivesTheBitsOfAResidentOneOnTheHost) {
  for (const Case& of : {Case{.name = "FP32"},
                         Case{.name = "BF16", .tied = true, .precision = api::Precision::kBF16},
                         Case{.name = "DelayedBF16Adapters",
                              .precision = api::Precision::kBF16,
                              .mode = api::StepMode::kDelayed,
                              .lora_rank = 4}}) {
    const auto device = std::make_shared<device::FakeDevice>(3);
    StageOptions options = ResidentOptions(of);
    Pipeline resident(options, 1);
    StageOptions there = Swapped(options);
    there.streams = device;
    there.swap.memory = GetParam().memory;
    if (GetParam().state_in_memory) there.swap.scratch.clear();
    {
      Pipeline swapped(there, 1);
      resident.InitRandom(7);
      swapped.InitRandom(7);
      const auto expected = TrainSteps(resident, 0, 4, of.mode);
      EXPECT_EQ(TrainSteps(swapped, 0, 4, of.mode), expected) << of.name;
      EXPECT_EQ(swapped.stage(0).StateDigest(), resident.stage(0).StateDigest()) << of.name;
    }
    EXPECT_TRUE(device->Violations().empty()) << of.name << ": " << device->Violations().front();
  }
}

TEST(SwapStageMemoryTest, WhatItDoesNotDoIsRefusedInWords) {
  StageOptions options = Swapped(ResidentOptions({}));
  options.divided = true;
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kFailedPrecondition);
  options = Swapped(ResidentOptions({}));
  options.swap.memory = 1000;
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace swarm::model
