// Training with learned boundaries, by every optimizer: with exact sums no cut of the model and no
// interruption changes a bit, of the losses or of any tensor of the state.
#include <gtest/gtest.h>

#include "worker/model/testing/boundaries.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::Case;
using testing::FloatsOf;
using testing::LookupIn;
using testing::MakePipeline;
using testing::Pipeline;

constexpr std::uint64_t kSteps = 5;

struct Training {
  std::string name;
  Case of;
  api::OptimizerType optimizer = api::OptimizerType::kAdamW;
  api::StepMode mode = api::StepMode::kSync;
};

std::vector<Training> Trainings() {
  using api::OptimizerType;
  std::vector<Training> trainings;
  for (Case of : testing::Cases()) {
    // Every second update, so that there are both kinds.
    if (of.boundary.refreshSteps > 0) of.boundary.refreshSteps = 2;
    trainings.push_back({of.name + "Lamb", of, OptimizerType::kLAMB});
    if (of.name != "Bottleneck" && of.name != "MaxoutTiedAndShared" &&
        of.name != "SubspaceTurning" && of.name != "AnchoredByFactorsOfTokens") {
      continue;
    }
    trainings.push_back({of.name + "AdamW", of, OptimizerType::kAdamW});
    trainings.push_back({of.name + "Muon", of, OptimizerType::kMuon});
    trainings.push_back(
        {of.name + "LambDelayed", of, OptimizerType::kLAMB, api::StepMode::kDelayed});
  }
  return trainings;
}

class TrainingTest : public ::testing::TestWithParam<Training> {
 protected:
  static StageOptions Options() {
    StageOptions options = testing::OptionsOf(GetParam().of, {2, 3, 6});
    options.optimizer.type = GetParam().optimizer;
    options.step_mode = GetParam().mode;
    options.accumulation = api::Accumulation::kExact;
    return options;
  }
  static Version Read(std::uint64_t step) {
    return Version(GetParam().mode == api::StepMode::kDelayed && step > 0 ? step - 1 : step);
  }
  /// The losses of the steps [first, end) of two microbatches.
  static std::vector<double> Train(Pipeline& pipeline, std::uint64_t first, std::uint64_t end) {
    std::vector<double> losses;
    for (std::uint64_t step = first; step < end; ++step) {
      for (std::uint64_t m = 0; m < 2; ++m) {
        const Batch batch(2, 9, 10 * step + m, testing::SmallConfig().vocab_size);
        losses.push_back(pipeline.Train(step, m, Read(step), batch.tokens));
      }
      pipeline.Apply(step, 0.5, 1e-2);
    }
    return losses;
  }
  static void ExpectSameState(const Pipeline& actual, const Pipeline& expected) {
    const auto tensors = actual.Snapshot();
    for (const auto& [name, tensor] : expected.Snapshot()) {
      ASSERT_TRUE(tensors.contains(name)) << name;
      EXPECT_TRUE(tensors.at(name).data.text() == tensor.data.text()) << name;
    }
  }
};

TEST_P(TrainingTest, GivesTheSameBitsAtEveryCut) {
  Pipeline whole = MakePipeline(Options(), 1);
  const auto expected = Train(whole, 0, kSteps);
  Pipeline cut = MakePipeline(Options(), 4);
  EXPECT_EQ(Train(cut, 0, kSteps), expected);
  ExpectSameState(cut, whole);
}

TEST_P(TrainingTest, GoesOnFromItsStateAsIfNothingHadHappened) {
  Pipeline original = MakePipeline(Options(), 4);
  Train(original, 0, 3);  // in the middle of what is gathered for a turn
  Pipeline again(Options(), 2);
  again.Load(LookupIn(original.Snapshot()), Version(3), /*optimizer=*/true);
  EXPECT_EQ(Train(again, 3, kSteps), Train(original, 3, kSteps));
  ExpectSameState(again, original);
}

TEST_P(TrainingTest, MovesEveryParameterButTheBasisBetweenItsTurns) {
  Pipeline pipeline = MakePipeline(Options(), 2);
  const auto before = pipeline.Snapshot();
  Train(pipeline, 0, 1);
  const auto after = pipeline.Snapshot();
  for (const auto& [name, tensor] : before) {
    if (name.starts_with("optimizer.")) continue;
    const std::vector<float> now = FloatsOf(after.at(name));
    EXPECT_EQ(now == FloatsOf(tensor), name == "boundary.basis") << name;
    for (const float value : now) ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

TEST_P(TrainingTest, Learns) {
  Pipeline pipeline = MakePipeline(Options(), 4);
  const Batch batch(2, 9, 1, testing::SmallConfig().vocab_size);
  double first = 0, last = 0;
  for (std::uint64_t step = 0; step < 25; ++step) {
    last = pipeline.Train(step, 0, Read(step), batch.tokens);
    if (step == 0) first = last;
    pipeline.Apply(step, 1, 1e-2);
  }
  EXPECT_LT(last, 0.8 * first);
}

class ExportTest : public TrainingTest {};

TEST_P(ExportTest, GivesThePlainModelThatTrainingHasMade) {
  Pipeline pipeline = MakePipeline(Options(), 2);
  Train(pipeline, 0, kSteps);
  Pipeline plain = testing::Plain(Options(), pipeline);
  const Batch batch(2, 9, 1, testing::SmallConfig().vocab_size);
  const double expected = pipeline.Forward(0, 0, Version(kSteps), batch.tokens, false);
  EXPECT_NEAR(plain.Forward(0, 0, Version(0), batch.tokens, false), expected, 1e-5 * expected);
}

/// The trainings whose model is a plain one.
std::vector<Training> Exported() {
  std::vector<Training> exported = Trainings();
  std::erase_if(exported, [](const Training& training) {
    const api::BoundaryCodec codec = training.of.boundary.codec;
    return codec != api::BoundaryCodec::kNone && codec != api::BoundaryCodec::kSubspace;
  });
  return exported;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ExportTest, ::testing::ValuesIn(Exported()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Optimizers, TrainingTest, ::testing::ValuesIn(Trainings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace swarm::model
