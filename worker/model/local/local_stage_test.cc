// Replicas that take steps of their own: what a round makes of them.
#include "worker/model/local/local_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "worker/model/local/outer.h"
#include "worker/model/testing/models.h"
#include "worker/optim/norm.h"
#include "worker/protocol/commit.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::ElementsOf;
using testing::KeyOf;
using testing::LookupIn;
using testing::Pipeline;
using testing::RelativeDistance;
using testing::SmallConfig;

constexpr std::uint64_t kMicrobatches = 4;
constexpr double kRate = 3e-3, kNorm = 0.5;

struct Rule {
  std::uint64_t inner_steps = kMicrobatches;
  std::uint64_t microbatches = 1;
  double outer_learning_rate = 1;
  double outer_momentum = 0;
};

StageOptions Local(const Rule& rule) {
  StageOptions options;
  options.config = SmallConfig();
  options.config.tie_word_embeddings = true;
  options.microbatches = kMicrobatches;
  options.step_mode = api::StepMode::kLocal;
  options.local = {.inner_steps = rule.inner_steps,
                   .microbatches = rule.microbatches,
                   .outer_learning_rate = rule.outer_learning_rate,
                   .outer_momentum = rule.outer_momentum,
                   .max_grad_norm = kNorm,
                   .learning_rate = [](Version version) { return kRate / (1.0 + version.value); }};
  return options;
}

/// The batch of a microbatch is the same whoever computes it.
std::unique_ptr<Batch> BatchOf(std::uint64_t step, std::uint64_t microbatch) {
  return std::make_unique<Batch>(2, 9, 100 * step + microbatch, SmallConfig().vocab_size);
}

void Train(Pipeline& replica, std::uint64_t step, const std::vector<std::uint64_t>& microbatches) {
  for (const std::uint64_t m : microbatches) {
    replica.Train(step, m, Version(step), BatchOf(step, m)->tokens);
  }
}

/// What all of them have moved, summed and applied by each.
void EndRound(const std::vector<Pipeline*>& replicas, std::uint64_t step) {
  std::vector<Bytes> sums;
  for (std::size_t g = 0; g < replicas[0]->stage(0).groups().size(); ++g) {
    Bytes sum;
    for (Pipeline* replica : replicas) {
      const Bytes part = replica->stage(0).Accumulator(Step(step), g).elements;
      sum = sum.empty() ? part : testing::Add<float>(sum, part);
    }
    sums.push_back(sum);
  }
  for (Pipeline* replica : replicas) {
    ASSERT_TRUE(replica->stage(0).Apply(sums, 1, 0, /*skip=*/false).ok());
    replica->stage(0).ReleaseStep(Step(step));
  }
}

std::vector<float> WeightsOf(Pipeline& replica) {
  std::vector<float> weights;
  const auto state = replica.Snapshot();
  for (const ParameterSlot& slot : replica.stage(0).parameters()) {
    const auto values = testing::FloatsOf(state.at(slot.name));
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

/// The weights after inner steps on these microbatches of a step, and of the next one, each step
/// with so many of them, one after the other, as a resident stage takes them.
std::vector<float> Alone(const std::map<std::string, checkpoint::NamedTensor>& from,
                         std::uint64_t step, const std::vector<std::uint64_t>& microbatches,
                         const std::vector<std::uint64_t>& of_next = {}, std::size_t together = 1) {
  StageOptions options = Local({});
  options.step_mode = api::StepMode::kSync;
  options.local = {};
  options.microbatches = together;
  Pipeline plain(options, 1);
  plain.Load(LookupIn(from), Version(0), /*optimizer=*/false);
  std::uint64_t inner = 0;
  const auto take = [&](std::uint64_t of, const std::vector<std::uint64_t>& some) {
    for (std::size_t i = 0; i < some.size(); i += together) {
      for (std::size_t j = i; j < i + together; ++j) {
        plain.Train(inner, j, Version(inner), BatchOf(of, some[j])->tokens);
      }
      double squares = 0;
      for (const auto& [group, sum] : plain.Reduce(inner)) {
        squares += optim::SquaredNorm(ElementsOf<float>(sum));
      }
      plain.Apply(inner, protocol::ComputeClip(std::sqrt(squares), kNorm), kRate / (1.0 + step));
      ++inner;
    }
  };
  take(step, microbatches);
  take(step + 1, of_next);
  return WeightsOf(plain);
}

TEST(LocalStageTest, ARoundOfOneReplicaIsItsStepsOneAfterTheOther) {
  Pipeline local(Local({}), 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  Train(local, 0, {0, 1, 2, 3});
  EXPECT_EQ(testing::TextOf({{0, local.Snapshot().at("model.norm.weight").data}}),
            testing::TextOf({{0, before.at("model.norm.weight").data}}))
      << "nothing is seen before the commit";
  EndRound({&local}, 0);
  const auto expected = Alone(before, 0, {0, 1, 2, 3});
  const auto weights = WeightsOf(local);
  EXPECT_LT(RelativeDistance(weights, expected), 1e-6);
  Pipeline fresh(Local({}), 1);
  fresh.InitRandom(7);
  EXPECT_GT(RelativeDistance(weights, WeightsOf(fresh)), 1e-3) << "steps go somewhere";
}

/// The norm of a step's sums, as a commit computes it.
double NormOf(Pipeline& pipeline, std::uint64_t step) {
  std::map<std::string, double> squares;
  const auto sums = pipeline.Reduce(step);
  for (const ParameterSlot& slot : pipeline.stage(0).parameters()) {
    const std::span<const float> of = ElementsOf<float>(sums.at(slot.group));
    squares[slot.name] = optim::SquaredNorm(of.subspan(slot.offset, slot.count));
  }
  return protocol::ComputeGlobalNorm(squares);
}

TEST(LocalStageTest, OneReplicaThatTakesOneStepARoundIsSyncToTheBit) {
  StageOptions options = Local({.inner_steps = 1, .microbatches = kMicrobatches});
  options.local.sums_weights = true;
  Pipeline local(options, 1);
  options.step_mode = api::StepMode::kSync;
  options.local = {};
  Pipeline sync(options, 1);
  local.InitRandom(7);
  sync.InitRandom(7);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const auto batch = BatchOf(step, m);
      EXPECT_EQ(local.Train(step, m, Version(step), batch->tokens),
                sync.Train(step, m, Version(step), batch->tokens));
    }
    EndRound({&local}, step);
    const double norm = NormOf(sync, step);
    EXPECT_GT(norm, kNorm) << "clipping has something to do";
    sync.Apply(step, protocol::ComputeClip(norm, kNorm), kRate / (1.0 + step));
    EXPECT_EQ(WeightsOf(local), WeightsOf(sync)) << step;
  }
}

TEST(LocalStageTest, ReplicasOfOneStepARoundGoToTheMeanByMicrobatches) {
  StageOptions options = Local({.inner_steps = 1, .microbatches = 2});
  options.local.sums_weights = true;
  Pipeline a(options, 1), b(options, 1);
  a.InitRandom(7);
  b.InitRandom(7);
  const auto before = a.Snapshot();
  Train(a, 0, {0, 1});
  Train(b, 0, {3});
  Train(a, 0, {2});  // an inner step of its own, which begins behind the first
  EndRound({&a, &b}, 0);
  EXPECT_EQ(a.stage(0).StateDigest(), b.stage(0).StateDigest());
  // The step of one microbatch has that one's gradient.
  std::vector<float> mean = Alone(before, 0, {0, 1}, {}, 2);
  const auto of_b = Alone(before, 0, {3});
  const auto whole = WeightsOf(a);
  std::vector<float> behind(mean.size());  // what a had at its end, times a quarter
  for (std::size_t i = 0; i < mean.size(); ++i) {
    behind[i] = whole[i] - 0.5F * mean[i] - 0.25F * of_b[i];
    mean[i] *= 0.25F;
  }
  const double moved = RelativeDistance(behind, mean);
  EXPECT_GT(moved, 1e-4) << "it goes on from there";
  EXPECT_LT(moved, 0.1);
}

TEST(LocalStageTest, StagesTakeTheStepsOfTheWholeModel) {
  StageOptions options = Local({.outer_momentum = 0.5});
  options.config.tie_word_embeddings = false;
  options.local.max_grad_norm = 0;  // each stage has a norm of its own
  Pipeline whole(options, 1), cut(options, 3);
  whole.InitRandom(7);
  cut.InitRandom(7);
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const auto batch = BatchOf(round, m);
      const double loss = whole.Train(round, m, Version(round), batch->tokens);
      EXPECT_NEAR(cut.Train(round, m, Version(round), batch->tokens), loss, 1e-4 * loss);
    }
    whole.Apply(round, 1, 0);
    cut.Apply(round, 1, 0);
  }
  const auto expected = whole.Snapshot();
  for (const auto& [name, tensor] : cut.Snapshot()) {
    EXPECT_LT(RelativeDistance(testing::FloatsOf(tensor), testing::FloatsOf(expected.at(name))),
              name.starts_with("optimizer.") ? 1e-2 : 1e-4)
        << name;
  }
}

TEST(LocalStageTest, ReplicasGoToTheMeanOfTheirWeights) {
  Pipeline a(Local({.inner_steps = 2}), 1), b(Local({.inner_steps = 2}), 1);
  a.InitRandom(7);
  b.InitRandom(7);
  const auto before = a.Snapshot();
  Train(a, 0, {0, 2});
  Train(b, 0, {1, 3});
  EndRound({&a, &b}, 0);
  EXPECT_EQ(a.stage(0).StateDigest(), b.stage(0).StateDigest());
  std::vector<float> mean = Alone(before, 0, {0, 2});
  const auto other = Alone(before, 0, {1, 3});
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = 0.5F * (mean[i] + other[i]);
  EXPECT_LT(RelativeDistance(WeightsOf(a), mean), 1e-6);
  // They go on from there, each with its own moments.
  Train(a, 1, {0, 1, 2});
  Train(b, 1, {3});
  EndRound({&a, &b}, 1);
  EXPECT_EQ(a.stage(0).StateDigest(), b.stage(0).StateDigest());
}

TEST(LocalStageTest, WhatIsDroppedMovesNothing) {
  Pipeline local(Local({}), 1);
  local.InitRandom(7);
  const std::vector<float> before = WeightsOf(local);
  for (std::uint64_t m = 0; m < 2; ++m) {
    local.Forward(0, m, Version(0), BatchOf(0, m)->tokens);
    ASSERT_TRUE(local.stage(0).Backward(KeyOf(0, m), {}).ok());
  }
  local.stage(0).Drop(KeyOf(0, 0));
  EXPECT_EQ(local.stage(0).Fold(KeyOf(0, 0)).code(), StatusCode::kNotFound);
  ASSERT_TRUE(local.stage(0).Fold(KeyOf(0, 1)).ok());
  std::vector<Bytes> moved;
  for (std::size_t g = 0; g < local.stage(0).groups().size(); ++g) {
    moved.push_back(local.stage(0).Accumulator(Step(0), g).elements);
  }
  EndRound({&local}, 0);
  // base - (base - w) is w but for the last bit; one of two steps is about half of the way.
  const auto weights = WeightsOf(local);
  double squares = 0, expected = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    squares += std::pow(double{weights[i]} - before[i], 2);
  }
  for (const Bytes& sum : moved) expected += optim::SquaredNorm(ElementsOf<float>(sum));
  EXPECT_NEAR(squares, expected, 1e-4 * expected);
  EXPECT_GT(expected, 0);
}

TEST(LocalStageTest, AStepOfSeveralMicrobatchesIsOneOfTheirMean) {
  Pipeline local(Local({.inner_steps = 2, .microbatches = 2}), 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  Train(local, 0, {0, 1, 2, 3});
  EndRound({&local}, 0);
  EXPECT_LT(RelativeDistance(WeightsOf(local), Alone(before, 0, {0, 1, 2, 3}, {}, 2)), 1e-6);
}

TEST(LocalStageTest, TheLastStepOfARoundTakesWhatIsThere) {
  // Shares of a quarter and of a half are exact: Adam's first step makes much of a last bit where a gradient nearly
  // cancels.
  StageOptions options = Local({.inner_steps = 2, .microbatches = 4});
  options.microbatches = 8;
  Pipeline local(options, 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  const std::vector<float> start = WeightsOf(local);
  Train(local, 0, {0, 1});
  EndRound({&local}, 0);
  EXPECT_LT(RelativeDistance(WeightsOf(local), Alone(before, 0, {0, 1}, {}, 2)), 1e-6);
  EXPECT_GT(RelativeDistance(WeightsOf(local), start), 1e-3);
}

TEST(LocalStageTest, AnEvaluationBetweenThemEndsAStepEarlyAndLosesNothing) {
  Pipeline local(Local({.inner_steps = 2, .microbatches = 2}), 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  Train(local, 0, {0, 1});  // so that local weights are not those of the job
  Train(local, 0, {2});
  local.Forward(0, 9, Version(0), BatchOf(9, 9)->tokens, /*keep_graph=*/false);
  Train(local, 0, {3});
  EndRound({&local}, 0);
  const auto first = Alone(before, 0, {0, 1}, {}, 2);
  const auto weights = WeightsOf(local);
  std::vector<float> start;
  for (const ParameterSlot& slot : local.stage(0).parameters()) {
    const auto values = testing::FloatsOf(before.at(slot.name));
    start.insert(start.end(), values.begin(), values.end());
  }
  EXPECT_GT(RelativeDistance(weights, start), 1.2 * RelativeDistance(first, start))
      << "two more steps, of a microbatch each";
}

/// The sums of round 0 when the first two microbatches were computed, and those of `folded` count.
std::vector<float> SumOfStep(const std::vector<std::uint64_t>& folded) {
  Pipeline local(Local({.inner_steps = 2, .microbatches = 2}), 1);
  local.InitRandom(7);
  for (const std::uint64_t m : {0, 1}) {
    local.Forward(0, m, Version(0), BatchOf(0, m)->tokens);
    EXPECT_TRUE(local.stage(0).Backward(KeyOf(0, m), {}).ok());
  }
  for (const std::uint64_t m : {0, 1}) {
    if (std::ranges::count(folded, m) == 0) local.stage(0).Drop(KeyOf(0, m));
  }
  for (const std::uint64_t m : folded) EXPECT_TRUE(local.stage(0).Fold(KeyOf(0, m)).ok());
  std::vector<float> sums;
  for (std::size_t g = 0; g < local.stage(0).groups().size(); ++g) {
    const Bytes sum = local.stage(0).Accumulator(Step(0), g).elements;
    const auto elements = ElementsOf<float>(sum);
    sums.insert(sums.end(), elements.begin(), elements.end());
  }
  return sums;
}

TEST(LocalStageTest, AMicrobatchOfAStepCountsItsShareOfWhatThatMoved) {
  const std::vector<float> both = SumOfStep({0, 1}), one = SumOfStep({1});
  double moved = 0;
  for (std::size_t i = 0; i < both.size(); ++i) {
    ASSERT_EQ(one[i], 0.5F * both[i]) << i;
    moved += std::abs(both[i]);
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(SumOfStep({}), std::vector<float>(both.size(), 0.0F));
}

/// Two rounds with an evaluation, the second of which begins before the first is applied.
std::vector<double> TrainOverlapped(Pipeline& local) {
  std::vector<double> losses;
  const auto train = [&](std::uint64_t step, std::initializer_list<std::uint64_t> some) {
    for (const std::uint64_t m : some) {
      losses.push_back(local.Train(step, m, Version(0), BatchOf(step, m)->tokens));
    }
  };
  train(0, {0, 1, 2});
  losses.push_back(local.Forward(0, 9, Version(0), BatchOf(9, 9)->tokens, /*keep_graph=*/false));
  train(0, {3});
  train(1, {0, 1, 2});
  EndRound({&local}, 0);
  losses.push_back(local.Forward(1, 9, Version(1), BatchOf(9, 9)->tokens, /*keep_graph=*/false));
  train(1, {3});
  EndRound({&local}, 1);
  return losses;
}

TEST(LocalStageTest, AStageThatIsSwappedTakesTheSameSteps) {
  StageOptions options = Local(
      {.inner_steps = 2, .microbatches = 2, .outer_learning_rate = 0.7, .outer_momentum = 0.9});
  options.local.overlaps = true;
  options.local.fragments = 2;
  Pipeline resident(options, 1);
  options.residency = api::Residency::kSwap;
  options.swap = {.memory = 180'000,  // two of its layers
                  .scratch = std::filesystem::temp_directory_path(),
                  .tasks = 2,
                  .task_bytes = 2 * 8 * 24 * sizeof(float)};
  Pipeline swapped(options, 1);
  resident.InitRandom(7);
  swapped.InitRandom(7);
  const auto expected = TrainOverlapped(resident), losses = TrainOverlapped(swapped);
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
  }
  const auto state = swapped.Snapshot();
  for (const auto& [name, tensor] : resident.Snapshot()) {
    EXPECT_LT(RelativeDistance(testing::FloatsOf(state.at(name)), testing::FloatsOf(tensor)), 1e-4)
        << name;
  }
}

TEST(LocalStageTest, TasksOfAStepPassTheSegmentsTogether) {
  StageOptions options = Local({.inner_steps = 2, .microbatches = 2});
  options.residency = api::Residency::kSwap;
  options.swap = {.memory = 180'000, .scratch = {}, .tasks = 2, .task_bytes = 4096};
  Pipeline local(options, 1);
  local.InitRandom(7);
  Stage& stage = local.stage(0);
  EXPECT_EQ(stage.tasks_at_once(), 2u);
  std::vector<std::string> order;
  std::vector<std::unique_ptr<Batch>> batches;
  for (const std::uint64_t m : {0, 1}) {
    batches.push_back(BatchOf(0, m));
    stage.SubmitForward(KeyOf(0, m), Version(0), batches.back()->tokens, {}, /*keep_graph=*/true,
                        [&, m](const Result<ForwardResult>& result) {
                          EXPECT_TRUE(result.ok());
                          order.push_back("forward " + std::to_string(m));
                        });
    stage.SubmitBackward(KeyOf(0, m), {}, [&, m](const Result<BackwardResult>& result) {
      EXPECT_TRUE(result.ok()) << result.status().ToString();
      order.push_back("backward " + std::to_string(m));
    });
  }
  EXPECT_TRUE(order.empty());
  EXPECT_TRUE(stage.Work());
  EXPECT_EQ(order, (std::vector<std::string>{"forward 0", "forward 1"}));
  EXPECT_TRUE(stage.Work());
  EXPECT_EQ(order.size(), 4u);
  EXPECT_FALSE(stage.Work());
}

TEST(LocalStageTest, FragmentsAreEqualRunsWhoseTensorsAreKnown) {
  StageOptions options = Local({});
  options.local.fragments = 3;
  Pipeline local(options, 1);
  const Stage& stage = local.stage(0);
  for (std::size_t g = 0; g < stage.groups().size(); ++g) {
    std::map<std::string, std::uint64_t> elements;
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::uint64_t count = stage.SumGroups(Step(step))[g].count;
      EXPECT_NEAR(static_cast<double>(count), stage.groups()[g].count / 3.0, 1);
      EXPECT_EQ(stage.SumGroups(Step(step + 3))[g].count, count);
      std::uint64_t offset = 0;
      for (const ParameterSlot& slot : stage.SumSlots(Step(step), g)) {
        EXPECT_EQ(slot.offset, offset) << slot.name;
        offset += slot.count;
        elements[slot.name] += slot.count;
      }
      EXPECT_EQ(offset, count);
    }
    for (const ParameterSlot& slot : stage.parameters()) {
      if (slot.group == g) {
        EXPECT_EQ(elements[slot.name], slot.count) << slot.name;
      }
    }
  }
}

StageOptions InFragments(std::uint64_t fragments, const Rule& rule = {}) {
  StageOptions options = Local(rule);
  options.local.fragments = fragments;
  return options;
}

/// Of all weights, those in the fragment of a step.
std::vector<float> PartOf(Pipeline& replica, std::uint64_t step, const std::vector<float>& all) {
  const Stage& stage = replica.stage(0);
  std::vector<float> part;
  std::size_t at = 0;
  for (const ParameterSlot& slot : stage.parameters()) {
    std::uint64_t first = 0;
    for (std::uint64_t f = 0; f < step % stage.fragments(); ++f) {
      first += stage.SumGroups(Step(f))[slot.group].count;
    }
    const std::uint64_t last = first + stage.SumGroups(Step(step))[slot.group].count;
    for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i, ++at) {
      if (i >= first && i < last) part.push_back(all[at]);
    }
  }
  return part;
}

TEST(LocalStageTest, ARoundExchangesOneFragmentAndWhatTheOthersMovedWaitsForTheirTurn) {
  StageOptions options = InFragments(2);
  options.local.learning_rate = [](Version) { return kRate; };
  Pipeline local(options, 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  const std::vector<float> start = WeightsOf(local);
  Train(local, 0, {0, 1, 2, 3});
  EndRound({&local}, 0);
  const std::vector<float> first = WeightsOf(local);
  const auto of_one = Alone(before, 0, {0, 1, 2, 3});
  EXPECT_LT(RelativeDistance(PartOf(local, 0, first), PartOf(local, 0, of_one)), 1e-6);
  EXPECT_EQ(PartOf(local, 1, first), PartOf(local, 1, start));
  // Alone with its moves, it goes on as if nothing had been exchanged.
  Train(local, 1, {0, 1, 2, 3});
  EndRound({&local}, 1);
  const std::vector<float> second = WeightsOf(local);
  const auto of_two = Alone(before, 0, {0, 1, 2, 3}, {0, 1, 2, 3});
  EXPECT_LT(RelativeDistance(PartOf(local, 1, second), PartOf(local, 1, of_two)), 1e-6);
  EXPECT_EQ(PartOf(local, 0, second), PartOf(local, 0, first));
}

TEST(LocalStageTest, ReplicasHoldTheSameAfterEachFragmentAlsoWhereRoundsOverlap) {
  StageOptions options =
      InFragments(3, {.inner_steps = 2, .outer_learning_rate = 0.7, .outer_momentum = 0.9});
  options.local.overlaps = true;
  Pipeline a(options, 1), b(options, 1);
  a.InitRandom(7);
  b.InitRandom(7);
  std::vector<float> before = WeightsOf(a);
  Train(a, 0, {0, 2});
  Train(b, 0, {1, 3});
  for (std::uint64_t round = 0; round < 6; ++round) {
    for (const std::uint64_t m : {0, 1, 2}) {  // the next round has begun
      a.Train(round + 1, m, Version(round), BatchOf(round + 1, m)->tokens);
    }
    b.Train(round + 1, 3, Version(round), BatchOf(round + 1, 3)->tokens);
    EndRound({&a, &b}, round);
    EXPECT_EQ(a.stage(0).StateDigest(), b.stage(0).StateDigest()) << round;
    const std::vector<float> after = WeightsOf(a);
    for (std::uint64_t f = 0; f < 3; ++f) {
      const double moved = RelativeDistance(PartOf(a, f, after), PartOf(a, f, before));
      if (f == round % 3) {
        EXPECT_GT(moved, 1e-4) << "round " << round;
      } else {
        EXPECT_EQ(moved, 0) << "round " << round << ", fragment " << f;
      }
    }
    before = after;
  }
}

/// The floats of a step's sums, one group after the other.
std::vector<float> SumsOf(Pipeline& replica, std::uint64_t step) {
  std::vector<float> sums;
  for (std::size_t g = 0; g < replica.stage(0).groups().size(); ++g) {
    const Bytes sum = replica.stage(0).Accumulator(Step(step), g).elements;
    const auto elements = ElementsOf<float>(sum);
    sums.insert(sums.end(), elements.begin(), elements.end());
  }
  return sums;
}

TEST(LocalStageTest, WhatARoundDidNotCountDoesNotWaitForAnotherTurn) {
  for (const bool cleared : {false, true}) {
    Pipeline a(InFragments(2), 1), b(InFragments(2), 1);
    a.InitRandom(7);
    b.InitRandom(7);
    Train(a, 0, {0, 1});
    Train(b, 0, {0, 1, 2, 3});
    // The trainer has given up what a folded, and b has computed it again.
    if (cleared) {
      ASSERT_TRUE(a.stage(0).SetScaleLevel(Step(0), 0).ok());
    }
    std::vector<Bytes> sums;
    for (std::size_t g = 0; g < b.stage(0).groups().size(); ++g) {
      sums.push_back(b.stage(0).Accumulator(Step(0), g).elements);
    }
    for (Pipeline* replica : {&a, &b}) {
      ASSERT_TRUE(replica->stage(0).Apply(sums, 1, 0, /*skip=*/false).ok());
      replica->stage(0).ReleaseStep(Step(0));
    }
    const std::vector<float> of_next = SumsOf(a, 1);
    EXPECT_EQ(of_next == std::vector<float>(of_next.size(), 0.0F), cleared);
  }
}

TEST(LocalStageTest, AnHeirTakesWhatALeaverKeptOfTheFragment) {
  Pipeline leaver(InFragments(2), 1), heir(InFragments(2), 1), both(InFragments(2), 1);
  for (Pipeline* replica : {&leaver, &heir, &both}) replica->InitRandom(7);
  Train(leaver, 0, {0, 1, 2, 3});
  EndRound({&leaver, &heir}, 0);
  Train(leaver, 1, {0, 1});
  const std::vector<float> parcel = SumsOf(leaver, 1);
  for (std::size_t g = 0; g < heir.stage(0).groups().size(); ++g) {
    const Bytes sum = leaver.stage(0).Accumulator(Step(1), g).elements;
    ASSERT_TRUE(heir.stage(0).Absorb(Step(1), g, sum, true).ok());
    EXPECT_EQ(heir.stage(0).Absorb(Step(1), g, sum.Slice(4, sum.size() - 4), true).code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SumsOf(heir, 1), parcel);
  Train(both, 0, {0, 1, 2, 3});
  EndRound({&both}, 0);
  Train(both, 1, {0, 1});
  EXPECT_LT(RelativeDistance(parcel, SumsOf(both, 1)), 1e-5) << "of both rounds";
}

TEST(LocalStageTest, ASkippedRoundMovesNothingLaterEither) {
  Pipeline local(InFragments(2), 1);
  local.InitRandom(7);
  Train(local, 0, {0, 1, 2, 3});
  ASSERT_TRUE(local.stage(0).Apply({}, 1, 0, /*skip=*/true).ok());
  local.stage(0).ReleaseStep(Step(0));
  const std::vector<float> of_next = SumsOf(local, 1);
  EXPECT_EQ(of_next, std::vector<float>(of_next.size(), 0.0F));
}

TEST(LocalStageTest, AStageTakesOtherWeightsAndKeepsItsMoments) {
  StageOptions options = Local({});
  options.step_mode = api::StepMode::kSync;
  options.local = {};
  options.residency = api::Residency::kSwap;
  options.swap = {.memory = 180'000, .scratch = {}, .tasks = 2, .task_bytes = 4096};
  Pipeline swapped(options, 1);
  options.residency = api::Residency::kResident;
  Pipeline resident(options, 1), other(options, 1);
  other.InitRandom(8);
  const auto of_other = other.Snapshot();
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  for (Pipeline* pipeline : {&resident, &swapped}) {
    pipeline->InitRandom(7);
    pipeline->Train(0, 0, Version(0), BatchOf(0, 0)->tokens);
    pipeline->Apply(0, 1, kRate);
    pipeline->Forward(1, 0, Version(1), BatchOf(1, 0)->tokens);
    auto expected = pipeline->Snapshot();
    expected.at(name) = of_other.at(name);
    const auto find = [&](const std::string& wanted) -> Result<checkpoint::NamedTensor> {
      return wanted == name ? of_other.at(name) : Result<checkpoint::NamedTensor>(NotFound(wanted));
    };
    ASSERT_TRUE(pipeline->stage(0).Replace(find).ok());
    EXPECT_EQ(pipeline->stage(0).Backward(KeyOf(1, 0), {}).status().code(), StatusCode::kNotFound)
        << "its graph was of other weights";
    for (const auto& [of, tensor] : pipeline->Snapshot()) {
      EXPECT_EQ(tensor.data.text(), expected.at(of).data.text()) << of;
    }
    const auto wrong = [&](const std::string& wanted) -> Result<checkpoint::NamedTensor> {
      checkpoint::NamedTensor tensor = of_other.at(name);
      tensor.shape = {1, 2};
      return wanted == name ? tensor : Result<checkpoint::NamedTensor>(NotFound(wanted));
    };
    EXPECT_EQ(pipeline->stage(0).Replace(wrong).code(), StatusCode::kInvalidArgument);
  }
  options.step_mode = api::StepMode::kDelayed;
  EXPECT_EQ(Pipeline(options, 1).stage(0).Replace(LookupIn(of_other)).code(),
            StatusCode::kFailedPrecondition);
}

TEST(LocalStageTest, AForwardWhoseWeightsHaveGoneIsComputedAgain) {
  Pipeline local(Local({.inner_steps = 2}), 1), in_turn(Local({.inner_steps = 2}), 1);
  local.InitRandom(7);
  in_turn.InitRandom(7);
  const auto first = BatchOf(0, 0), second = BatchOf(0, 1);
  local.Forward(0, 0, Version(0), first->tokens);
  local.Forward(0, 1, Version(0), second->tokens);
  local.BackwardAndFold(0, 0);
  local.BackwardAndFold(0, 1);
  Train(in_turn, 0, {0, 1});
  for (std::size_t g = 0; g < local.stage(0).groups().size(); ++g) {
    EXPECT_EQ(local.stage(0).Accumulator(Step(0), g).elements.text(),
              in_turn.stage(0).Accumulator(Step(0), g).elements.text());
  }
}

TEST(LocalStageTest, WhereRoundsOverlapEachStepCountsOnce) {
  StageOptions options = Local({});
  options.local.overlaps = true;
  options.local.learning_rate = [](Version) { return kRate; };
  Pipeline local(options, 1), joiner(options, 1);
  local.InitRandom(7);
  const auto before = local.Snapshot();
  Train(local, 0, {0, 1, 2, 3});
  // Two of the next round come before the sum, with the version that this one read.
  for (const std::uint64_t m : {0, 1}) local.Train(1, m, Version(0), BatchOf(1, m)->tokens);
  const auto third = BatchOf(1, 2);
  local.Forward(1, 2, Version(0), third->tokens);
  EndRound({&local}, 0);
  EXPECT_LT(RelativeDistance(WeightsOf(local), Alone(before, 0, {0, 1, 2, 3})), 1e-6);
  joiner.Load(LookupIn(local.Snapshot()), Version(1), /*optimizer=*/true);
  EXPECT_EQ(joiner.stage(0).StateDigest(), local.stage(0).StateDigest());
  const double of_before = local.Forward(9, 0, Version(0), third->tokens, /*keep_graph=*/false);
  EXPECT_EQ(joiner.Forward(9, 0, Version(0), third->tokens, /*keep_graph=*/false), of_before);
  local.BackwardAndFold(1, 2);
  local.Train(1, 3, Version(0), BatchOf(1, 3)->tokens);
  EndRound({&local}, 1);
  EXPECT_LT(RelativeDistance(WeightsOf(local), Alone(before, 0, {0, 1, 2, 3}, {0, 1, 2, 3})), 1e-6);
}

TEST(LocalStageTest, EvaluationReadsTheWeightsOfTheJob) {
  Pipeline local(Local({}), 1);
  local.InitRandom(7);
  const auto batch = BatchOf(9, 9);
  const double before = local.Forward(0, 0, Version(0), batch->tokens, /*keep_graph=*/false);
  Train(local, 0, {0, 1});
  EXPECT_EQ(local.Forward(0, 0, Version(0), batch->tokens, /*keep_graph=*/false), before);
  Train(local, 0, {2, 3});
  EndRound({&local}, 0);
  EXPECT_NE(local.Forward(1, 0, Version(1), batch->tokens, /*keep_graph=*/false), before);
}

TEST(LocalStageTest, AJoinerGoesOnFromTheStateOfTheJob) {
  const StageOptions options =
      Local({.inner_steps = 2, .outer_learning_rate = 0.7, .outer_momentum = 0.9});
  Pipeline a(options, 1), joiner(options, 1);
  a.InitRandom(7);
  Train(a, 0, {0, 1, 2, 3});
  EndRound({&a}, 0);
  joiner.Load(LookupIn(a.Snapshot()), Version(1), /*optimizer=*/true);
  EXPECT_EQ(joiner.stage(0).StateDigest(), a.stage(0).StateDigest());
  Train(a, 1, {0, 1});
  Train(joiner, 1, {2, 3});
  EndRound({&a, &joiner}, 1);
  EXPECT_EQ(joiner.stage(0).StateDigest(), a.stage(0).StateDigest());
}

TEST(LocalStageTest, WhatItDoesNotDoIsRefusedInWords) {
  StageOptions options = Local({});
  options.accumulation = api::Accumulation::kExact;
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kFailedPrecondition);
  options = Local({});
  options.stage_count = 2;  // with a tied head
  EXPECT_EQ(Stage::Create(options).status().code(), StatusCode::kFailedPrecondition);
}

TEST(OuterStepTest, TwoRoundsByHand) {
  std::vector<float> weights = {1, -2}, velocity = {0, 0};
  const OuterRule rule{.learning_rate = 0.5, .momentum = 0.5, .share = 0.25};
  StepOuter(std::vector<float>{4, 8}, rule, velocity, weights);
  EXPECT_EQ(velocity, (std::vector<float>{1, 2}));
  EXPECT_EQ(weights, (std::vector<float>{0.25F, -3.5F})) << "1 - 0.5 (1 + 0.5 1), and so on";
  StepOuter(std::vector<float>{0, 4}, rule, velocity, weights);
  EXPECT_EQ(velocity, (std::vector<float>{0.5F, 2}));
  EXPECT_EQ(weights, (std::vector<float>{0.125F, -4.5F}));
}

}  // namespace
}  // namespace swarm::model
