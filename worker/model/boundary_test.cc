// Promises of every boundary: a cut changes no number, whatever the boundary computes; and the
// properties of each learned boundary.
#include "api/model/boundary.h"

#include <gtest/gtest.h>

#include "api/format/enum_names.h"
#include "worker/model/arithmetic/subspace.h"
#include "worker/model/layout/layout.h"
#include "worker/model/start/start.h"
#include "worker/model/testing/boundaries.h"

namespace swarm::model {
namespace {

using api::BoundaryCodec;
using api::NumberCodec;
using testing::Batch;
using testing::Case;
using testing::Cases;
using testing::ElementsOf;
using testing::FloatsOf;
using testing::KeyOf;
using testing::kSeed;
using testing::LookupIn;
using testing::MakePipeline;
using testing::OptionsOf;
using testing::Pipeline;
using testing::Plain;
using testing::RelativeDistance;
using testing::SmallConfig;

/// The losses of a step's two microbatches.
std::vector<double> TrainStep(Pipeline& pipeline, std::uint64_t step) {
  std::vector<double> losses;
  for (std::uint64_t m = 0; m < 2; ++m) {
    const Batch batch(2, 9, 10 * step + m, SmallConfig().vocab_size);
    losses.push_back(pipeline.Train(step, m, Version(step), batch.tokens));
  }
  return losses;
}

void ExpectSameGradients(Pipeline& actual, Pipeline& expected, std::uint64_t step,
                         double rounding = 1e-5) {
  const auto gradients = actual.Gradients(step);
  for (const auto& [name, gradient] : expected.Gradients(step)) {
    ASSERT_TRUE(gradients.contains(name)) << name;
    EXPECT_LT(RelativeDistance(gradients.at(name), gradient), rounding) << name;
    EXPECT_GT(RelativeDistance(std::vector<float>(gradient.size()), gradient), 0.5) << name;
  }
}

/// Checks that `cut` computes the same bits as `whole`, and `exact` nearly the same numbers.
void ExpectRoundingButNoCut(Pipeline& whole, Pipeline& cut, Pipeline& exact) {
  const auto expected = TrainStep(whole, 0);
  EXPECT_EQ(TrainStep(cut, 0), expected);
  ExpectSameGradients(cut, whole, 0);
  const auto unrounded = TrainStep(exact, 0);
  EXPECT_NE(unrounded, expected);
  EXPECT_NEAR(unrounded[0], expected[0], 0.01 * expected[0]);
}

const std::vector<std::uint64_t> kEveryLayer{1, 2, 3, 4, 5, 6, 7};

class BoundaryTest : public ::testing::TestWithParam<Case> {};

TEST_P(BoundaryTest, CutsChangeNeitherTheLossNorAnyGradient) {
  for (const std::uint64_t stages : {2, 4, 8}) {
    SCOPED_TRACE(std::to_string(stages) + " stages");
    const auto layers = stages == 8 ? kEveryLayer : std::vector<std::uint64_t>{2, 3, 6};
    const StageOptions options = OptionsOf(GetParam(), layers);
    Pipeline whole = MakePipeline(options, 1);
    Pipeline cut = MakePipeline(options, stages);
    for (std::uint64_t step = 0; step < 2; ++step) {
      const auto expected = TrainStep(whole, step);
      const auto actual = TrainStep(cut, step);
      for (int m = 0; m < 2; ++m) EXPECT_NEAR(actual[m], expected[m], 1e-5 * expected[m]);
      ExpectSameGradients(cut, whole, step);
      whole.Apply(step, 1, 1e-2);
      // From the same state: which of two channels is larger may hang on the last bit.
      cut.Load(LookupIn(whole.Snapshot()), Version(step + 1), /*optimizer=*/true);
    }
  }
}

TEST_P(BoundaryTest, WhatCrossesIsRoundedWhereNothingIsCutToo) {
  for (const auto numbers : {NumberCodec::kBF16, NumberCodec::kInt8, NumberCodec::kInt8Dynamic}) {
    StageOptions options = OptionsOf(GetParam(), {2, 5});
    options.boundary.coefficients = numbers;
    options.boundary.blockSize = 6;
    if (GetParam().boundary.codec == BoundaryCodec::kNone) {
      options.boundary.codec = BoundaryCodec::kInt8;
    }
    Pipeline whole = MakePipeline(options, 1);
    Pipeline cut = MakePipeline(options, 3);
    options.boundary.codec = GetParam().boundary.codec;
    options.boundary.coefficients = NumberCodec::kNone;
    Pipeline exact = MakePipeline(options, 1);
    ExpectRoundingButNoCut(whole, cut, exact);
  }
}

TEST_P(BoundaryTest, ComputesInSixteenBitsAsInFloat32ButForRounding) {
  StageOptions options = OptionsOf(GetParam(), {2, 5});
  Pipeline wide = MakePipeline(options, 1);
  for (const auto precision : {api::Precision::kBF16, api::Precision::kFP16}) {
    SCOPED_TRACE(NameOf(precision));
    options.precision = precision;
    Pipeline whole = MakePipeline(options, 1);
    Pipeline cut = MakePipeline(options, 3);
    ExpectRoundingButNoCut(whole, cut, wide);
  }
}

TEST_P(BoundaryTest, InBinary16GradientsHaveTheSameBitsHoweverSmallTheyAre) {
  StageOptions options = OptionsOf(GetParam(), {2, 5});
  options.precision = api::Precision::kFP16;
  constexpr std::uint64_t kMore = 1 << 30;  // microbatches, of which each has its part of the loss
  const auto gradients_of = [&](std::uint64_t microbatches) {
    options.microbatches = microbatches;
    Pipeline pipeline = MakePipeline(options, 3);
    const Batch batch(2, 9, 1, options.config.vocab_size);
    pipeline.Train(0, 0, Version(0), batch.tokens);
    return pipeline.Gradients(0);
  };
  const auto small = gradients_of(kMore);
  for (const auto& [name, gradient] : gradients_of(1)) {
    // The statistic of a basis is of squares of gradients.
    const double factor = name == kBasisName ? double{kMore} * kMore : double{kMore};
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_EQ(small.at(name)[i] * factor, gradient[i]) << name << " " << i;
    }
  }
}

TEST_P(BoundaryTest, GoesOnFromASnapshotAtAnyCutThatItAllows) {
  const StageOptions options = OptionsOf(GetParam(), {2, 3, 6});
  Pipeline original = MakePipeline(options, 4);
  for (std::uint64_t step = 0; step < 2; ++step) {
    TrainStep(original, step);
    original.Apply(step, 1, 1e-2);
  }
  const auto tensors = original.Snapshot();
  const auto expected = TrainStep(original, 2);
  for (const std::uint64_t stages : {1, 2, 3, 4}) {
    Pipeline again(options, stages);
    again.Load(LookupIn(tensors), Version(2), /*optimizer=*/true);
    if (stages == 4) {
      for (std::size_t s = 0; s < 4; ++s) {
        EXPECT_EQ(again.stage(s).StateDigest(), original.stage(s).StateDigest());
      }
    }
    const auto actual = TrainStep(again, 2);
    for (int m = 0; m < 2; ++m) EXPECT_NEAR(actual[m], expected[m], 1e-5 * expected[m]);
  }
}

TEST_P(BoundaryTest, Learns) {
  StageOptions options = OptionsOf(GetParam(), {3, 6});
  options.microbatches = 1;
  Pipeline pipeline = MakePipeline(options, 3);
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const double first = pipeline.Forward(0, 0, Version(0), batch.tokens, false);
  for (std::uint64_t step = 0; step < 15; ++step) {
    pipeline.Train(step, 1, Version(step), batch.tokens);
    pipeline.Apply(step, 1, 1e-2);
  }
  EXPECT_LT(pipeline.Forward(15, 0, Version(15), batch.tokens, false), 0.7 * first);
}

TEST_P(BoundaryTest, RefusesAPayloadOfAnotherSizeAndIdsThatAreNone) {
  const StageOptions options = OptionsOf(GetParam(), {3, 6});
  Pipeline pipeline = MakePipeline(options, 3);
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto sent = pipeline.stage(0).Forward(KeyOf(0, 0), Version(0), batch.tokens, {}, true);
  ASSERT_TRUE(sent.ok()) << sent.status().ToString();
  const auto c = api::CoefficientsPerToken(options.boundary, options.config.hidden_size);
  EXPECT_EQ(sent->boundary.size(), static_cast<std::size_t>(2 * 8 * c) * sizeof(float));
  Stage& middle = pipeline.stage(1);
  for (const std::size_t size : {std::size_t{0}, sent->boundary.size() - 4}) {
    const Bytes damaged = Bytes::Copy(sent->boundary.data(), size);
    EXPECT_EQ(middle.Forward(KeyOf(0, 0), Version(0), batch.tokens, damaged, true).status().code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(pipeline.stage(0).Backward(KeyOf(0, 0), damaged).status().code(),
              StatusCode::kDataLoss);
  }
  if (GetParam().boundary.rank == 0) return;  // no ids are needed in the middle
  std::vector<std::int32_t> ids(batch.tokens.ids.begin(), batch.tokens.ids.end());
  ids[3] = static_cast<std::int32_t>(options.config.vocab_size);
  const TokenBatch wrong{2, 9, ids};
  const TokenBatch none{2, 9, {}};
  for (const TokenBatch& tokens : {wrong, none}) {
    EXPECT_EQ(middle.Forward(KeyOf(0, 0), Version(0), tokens, sent->boundary, true).status().code(),
              StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, BoundaryTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// No number of the layers' outputs is lost in the coefficients.
TEST(SubspaceTest, IsTheSameModelWithBoundariesAndWithout) {
  Case of = Cases()[3];
  of.boundary.constrainLast = true;
  Pipeline without = MakePipeline(OptionsOf(of, {}), 1);
  Pipeline with = MakePipeline(OptionsOf(of, kEveryLayer), 8);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto expected = TrainStep(without, step);
    const auto actual = TrainStep(with, step);
    for (int m = 0; m < 2; ++m) EXPECT_NEAR(actual[m], expected[m], 1e-5 * expected[m]);
    // Into the coefficients and back at seven boundaries rounds more than a cut does.
    ExpectSameGradients(with, without, step, 1e-4);
    without.Apply(step, 1, 1e-2);
    // From the same state, because training amplifies rounding.
    with.Load(LookupIn(without.Snapshot()), Version(step + 1), /*optimizer=*/true);
  }
}

/// The logits of a stage that is the whole model.
std::vector<float> LogitsOf(Stage& stage) {
  const Batch batch(2, 9, 1, SmallConfig().vocab_size);
  const auto logits = stage.Logits(stage.version(), batch.tokens);
  EXPECT_TRUE(logits.ok()) << logits.status().ToString();
  const auto values = ElementsOf<float>(*logits);
  return {values.begin(), values.end()};
}

TEST(FoldTest, GivesAPlainModelThatComputesTheSame) {
  for (const std::string name : {"Plain", "Subspace", "SubspaceToTheEnd", "PlainTiedAndShared",
                                 "SubspaceTiedAndShared", "SubspaceTurning"}) {
    SCOPED_TRACE(name);
    const auto cases = Cases();
    const Case& of = *std::ranges::find(cases, name, &Case::name);
    const StageOptions options = OptionsOf(of, {2, 3, 6});
    Pipeline pipeline = MakePipeline(options, 1);
    for (std::uint64_t step = 0; step < 3; ++step) {
      TrainStep(pipeline, step);
      pipeline.Apply(step, 1, 1e-2);
    }
    Pipeline plain = Plain(options, pipeline);
    EXPECT_LT(RelativeDistance(LogitsOf(plain.stage(0)), LogitsOf(pipeline.stage(0))), 1e-5);
  }
}

TEST(FoldTest, RefusesWhatNoPlainModelComputes) {
  for (const std::size_t i : {1, 2, 4}) {
    const StageOptions options = OptionsOf(Cases()[i], {2});
    const auto folded = FoldWeights(options.config, options.boundary, options.seed,
                                    LookupIn(MakePipeline(options, 1).Snapshot()));
    EXPECT_EQ(folded.status().code(), StatusCode::kFailedPrecondition);
  }
}

TEST(SubspaceTest, ConstrainsTheLayersBeforeTheLastBoundaryOnly) {
  const auto layout = ComputeParameterLayout(OptionsOf(Cases()[3], {2, 6}).config, 0, 1,
                                             OptionsOf(Cases()[3], {2, 6}).boundary);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(layout->layers[i].constrained, i < 6) << i;
}

/// Compares two bases: |Uᵀ U'|^2 / rank, which is 1 if they span one subspace.
double SharedPart(const std::vector<float>& a, const std::vector<float>& b, std::size_t rank) {
  double sum = 0;
  for (const double part : Overlap(a, b, a.size() / rank, rank)) sum += part * part;
  return sum / static_cast<double>(rank);
}

TEST(SubspaceTest, IsTurnedWithoutAChangeOfTheCutToBeSeen) {
  Case of = Cases()[3];
  of.boundary.refreshSteps = 2;
  of.boundary.refreshRate = 0.02;
  for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
    StageOptions options = OptionsOf(of, kEveryLayer);
    options.step_mode = mode;
    Pipeline whole = MakePipeline(options, 1);
    Pipeline cut = MakePipeline(options, 8);
    const auto first = FloatsOf(whole.Snapshot().at(kBasisName));
    auto basis = first;
    for (std::uint64_t step = 0; step < 24; ++step) {
      const std::uint64_t version = mode == api::StepMode::kDelayed && step > 0 ? step - 1 : step;
      const Batch batch(2, 9, step, options.config.vocab_size);
      const double expected = whole.Train(step, 0, Version(version), batch.tokens);
      const double actual = cut.Train(step, 0, Version(version), batch.tokens);
      EXPECT_NEAR(actual, expected, 1e-5 * expected) << step;
      if (step % 8 == 7) ExpectSameGradients(cut, whole, step);
      for (Pipeline* pipeline : {&whole, &cut}) pipeline->Apply(step, 1, 1e-3);
      const auto now = FloatsOf(whole.Snapshot().at(kBasisName));
      if (step % 2 == 0) {
        EXPECT_EQ(now, basis) << step;
      }
      if (step % 2 == 1) {
        EXPECT_LT(SharedPart(basis, now, 6), 1 - 1e-9) << step;
      }
      basis = now;
    }
    for (std::size_t s = 0; s < 8; ++s) {
      for (const auto& tensor : cut.stage(s).Snapshot()) {
        if (tensor.name != kBasisName) continue;
        EXPECT_LT(RelativeDistance(FloatsOf(tensor), basis), 1e-4);
      }
    }
    EXPECT_LT(SharedPart(first, basis, 6), 0.99);
  }
}

// A sender that took (F U)[t] of an earlier U would be off here, as nothing of the plain model
// crosses a boundary.
TEST(SubspaceTest, SendsInTheBasisOfTheVersionThatItReads) {
  Case of = Cases()[3];
  of.boundary.refreshSteps = 2;
  of.boundary.refreshRate = 0.5;
  for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
    StageOptions options = OptionsOf(of, {2, 3, 6});
    options.step_mode = mode;
    const Batch batch(2, 9, 1, options.config.vocab_size);
    const auto loss = [&](Pipeline& pipeline, std::uint64_t version) {
      return pipeline.Forward(0, 0, Version(version), batch.tokens, /*keep_graph=*/false);
    };
    Pipeline pipeline = MakePipeline(options, 4);
    const auto first = pipeline.Snapshot();
    double earlier = loss(pipeline, 0);
    const double at_first = earlier;
    for (std::uint64_t step = 0; step < 7; ++step) {
      TrainStep(pipeline, step);
      pipeline.Apply(step, 1, 1e-2);
      Pipeline plain = Plain(options, pipeline);
      const double expected = loss(plain, 0);
      EXPECT_NEAR(loss(pipeline, step + 1), expected, 1e-5 * expected) << step;
      if (mode == api::StepMode::kDelayed) {
        EXPECT_EQ(loss(pipeline, step), earlier) << step;
      }
      earlier = loss(pipeline, step + 1);
    }
    // Another state of a version that was read before.
    pipeline.Load(LookupIn(first), Version(0), /*optimizer=*/true);
    EXPECT_EQ(loss(pipeline, 0), at_first);
  }
}

/// What a parameter of Subspace, or a moment of one, becomes if the basis gets the same directions
/// in another order: each comes one place later, the last one first.
std::vector<float> MovedOn(const ParameterSlot& slot, std::vector<float> values) {
  if (slot.start == Start::kSpread) {  // [rank, n]
    std::rotate(values.begin(), values.end() - slot.shape.back(), values.end());
  } else if (slot.start == Start::kEmbeddingInBasis || slot.name == kBasisName) {  // [n, rank]
    const std::int64_t rank = slot.shape.back();
    for (auto row = values.begin(); row != values.end(); row += rank) {
      std::rotate(row, row + (rank - 1), row + rank);
    }
  }
  return values;
}

// AdamW does not depend on the order of coefficients. So if the basis gets another order after the
// gradients were taken, an update differs only by that order, if the gradients follow it.
TEST(SubspaceTest, GradientsThatAreOlderThanATurnAreTurnedBeforeTheyAreUsed) {
  for (const auto accumulation : {api::Accumulation::kFloat, api::Accumulation::kExact}) {
    for (const std::uint64_t refresh_steps : {2, 4}) {  // the second update turns too, or does not
      SCOPED_TRACE(refresh_steps);
      Case of = Cases()[3];
      of.boundary.refreshSteps = refresh_steps;
      StageOptions options = OptionsOf(of, {2, 5});
      options.step_mode = api::StepMode::kDelayed;
      options.accumulation = accumulation;
      const Batch batch(2, 9, 1, options.config.vocab_size);
      const auto train = [&](Pipeline& pipeline, std::uint64_t step) {
        pipeline.Train(step, 0, Version(step > 0 ? step - 1 : 0), batch.tokens);
        pipeline.Apply(step, 1, 1e-2);
      };
      Pipeline original = MakePipeline(options, 2);
      for (std::uint64_t step = 0; step < 2; ++step) train(original, step);

      std::map<std::string, ParameterSlot> slots;
      for (std::size_t s = 0; s < original.size(); ++s) {
        for (const ParameterSlot& slot : original.stage(s).parameters()) slots[slot.name] = slot;
      }
      // The newest version alone: "previous." stays as the gradients of step 2 will be.
      auto tensors = original.Snapshot();
      for (const auto& [name, slot] : slots) {
        for (const std::string prefix : {"", "optimizer.exp_avg.", "optimizer.exp_avg_sq."}) {
          checkpoint::NamedTensor& tensor = tensors.at(prefix + name);
          const std::vector<float> values = MovedOn(slot, FloatsOf(tensor));
          tensor.data = Bytes::Copy(values.data(), values.size() * sizeof(float));
        }
      }
      Pipeline moved(options, 2);
      moved.Load(LookupIn(tensors), Version(2), /*optimizer=*/true);
      for (Pipeline* pipeline : {&original, &moved}) train(*pipeline, 2);

      const auto expected = original.Snapshot(), actual = moved.Snapshot();
      for (const auto& [name, slot] : slots) {
        for (const std::string prefix : {"", "optimizer.exp_avg."}) {
          EXPECT_LT(RelativeDistance(FloatsOf(actual.at(prefix + name)),
                                     MovedOn(slot, FloatsOf(expected.at(prefix + name)))),
                    1e-5)
              << prefix << name;
        }
      }
    }
  }
}

TEST(LearnedBoundaryTest, BeginsAsTheTwoSidesOfOneBasis) {
  for (const std::size_t which : {1, 4}) {
    const StageOptions options = OptionsOf(Cases()[which], {3});
    const auto tensors = MakePipeline(options, 2).Snapshot();
    const auto encoder = FloatsOf(tensors.at("boundary.3.encoder.weight"));  // [c, 24]
    const auto decoder = FloatsOf(tensors.at("boundary.3.decoder.weight"));  // [24, c]
    const std::size_t c = encoder.size() / 24;
    for (std::size_t i = 0; i < c; ++i) {
      for (std::size_t j = 0; j < c; ++j) {
        double product = 0;
        for (std::size_t d = 0; d < 24; ++d)
          product += double{encoder[i * 24 + d]} * decoder[d * c + j];
        EXPECT_NEAR(product, i == j, 1e-6);
      }
    }
  }
}

TEST(LearnedBoundaryTest, LearnsAtARateOfItsOwn) {
  for (const std::size_t which : {1, 2, 4}) {
    SCOPED_TRACE(Cases()[which].name);
    StageOptions options = OptionsOf(Cases()[which], {3});
    options.optimizer.weightDecay = 0;
    options.boundary.learningRateScale = 1;
    Pipeline whole_rate = MakePipeline(options, 2);
    options.boundary.learningRateScale = 0.25;
    Pipeline quarter = MakePipeline(options, 2);
    const auto before = whole_rate.Snapshot();
    for (Pipeline* pipeline : {&whole_rate, &quarter}) {
      TrainStep(*pipeline, 0);
      pipeline->Apply(0, 1, 1e-2);
    }
    const auto moved = [&](const std::string& name, Pipeline& pipeline) {
      return RelativeDistance(FloatsOf(pipeline.Snapshot().at(name)), FloatsOf(before.at(name)));
    };
    for (std::size_t s = 0; s < 2; ++s) {
      for (const auto& slot : whole_rate.stage(s).parameters()) {
        const bool coder =
            slot.name.ends_with("encoder.weight") || slot.name.ends_with("decoder.weight");
        const double whole = moved(slot.name, whole_rate);
        EXPECT_GT(whole, 1e-3) << slot.name;
        EXPECT_NEAR(moved(slot.name, quarter), (coder ? 0.25 : 1) * whole, 1e-5) << slot.name;
      }
    }
  }
}

TEST(AnchoredTest, BeginsWithTheEmbedding) {
  const auto tensors = MakePipeline(OptionsOf(Cases()[4], {3}), 2).Snapshot();
  EXPECT_EQ(FloatsOf(tensors.at("boundary.3.table.weight")),
            FloatsOf(tensors.at("model.embed_tokens.weight")));
}

TEST(AnchoredTest, BeginsAsIfItLookedUpOneToken) {
  const Case several = Cases()[Cases().size() - 2];
  ASSERT_EQ(several.boundary.anchorTokens, 3U);
  Pipeline one = MakePipeline(OptionsOf(Cases()[4], {3}), 2);
  Pipeline more = MakePipeline(OptionsOf(several, {3}), 2);
  EXPECT_EQ(TrainStep(more, 0), TrainStep(one, 0));
}

TEST(AnchoredTest, LambMovesWhatBeginsWithZerosAlsoAfterASmallFirstStep) {
  StageOptions options = OptionsOf(Cases()[Cases().size() - 2], {3});
  options.optimizer.type = api::OptimizerType::kLAMB;
  Pipeline pipeline = MakePipeline(options, 2);
  for (const double rate : {1e-6, 1e-2}) {
    const std::uint64_t step = pipeline.stage(0).version().value;
    TrainStep(pipeline, step);
    pipeline.Apply(step, 1, rate);
  }
  double largest = 0;
  for (const float value : FloatsOf(pipeline.Snapshot().at("boundary.3.context.weight"))) {
    largest = std::max(largest, std::abs(double{value}));
  }
  EXPECT_GT(largest, 1e-3);
}

TEST(SharedLayersTest, HaveTheGradientOfAllThatUseThem) {
  StageOptions options = OptionsOf(Cases()[0], {4});
  Pipeline apart = MakePipeline(options, 1);
  options.boundary.sharedLayers = true;
  Pipeline shared = MakePipeline(options, 2);
  // The same weights, once for each layer.
  auto tensors = shared.Snapshot();
  for (int layer = 0; layer < 8; ++layer) {
    const std::string from = "model.layers." + std::to_string(layer / 4 * 4) + ".";
    const std::string to = "model.layers." + std::to_string(layer) + ".";
    for (const auto& [name, tensor] : shared.Snapshot()) {
      if (name.starts_with(from)) tensors[to + name.substr(from.size())] = tensor;
    }
  }
  apart.Load(LookupIn(tensors), Version(0), /*optimizer=*/false);
  EXPECT_EQ(TrainStep(shared, 0), TrainStep(apart, 0));
  auto gradients = apart.Gradients(0);
  for (const auto& [name, gradient] : shared.Gradients(0)) {
    std::vector<float> sum = gradients.at(name);
    for (const std::string first : {"model.layers.0.", "model.layers.4."}) {
      if (!name.starts_with(first)) continue;
      for (int more = 1; more < 4; ++more) {
        const std::string layer = std::to_string(first[13] - '0' + more);
        const auto& of_copy = gradients.at("model.layers." + layer + "." + name.substr(15));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_copy[i];
      }
    }
    EXPECT_LT(RelativeDistance(gradient, sum), 1e-5) << name;
  }
}

}  // namespace
}  // namespace swarm::model
