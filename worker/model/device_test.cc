// A stage on a device whose copies and results are late has the bits of one on the CPU, and never
// touches memory too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/format/enum_names.h"
#include "worker/checkpoint/pieces.h"
#include "worker/device/testing/fake_device.h"
#include "worker/model/testing/boundaries.h"
#include "worker/optim/norm.h"

namespace swarm::model {
namespace {

using device::FakeDevice;
using testing::Batch;
using testing::Case;
using testing::KeyOf;

constexpr std::uint64_t kMicrobatches = 4;

template <typename T>
std::pair<Done<T>, std::future<Result<T>>> Expected() {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  return {[promise](Result<T> result) { promise->set_value(std::move(result)); },
          promise->get_future()};
}

std::unique_ptr<Stage> MakeStage(StageOptions options, std::uint64_t index) {
  options.stage = index;
  options.stage_count = 2;
  auto stage = Stage::Create(options);
  EXPECT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(options.seed);
  return *std::move(stage);
}

/// Applies a step: all of it; or of a stage that is divided, every other part, and takes weights of
/// the others from the void. The moments of those are lost, and given again before the next step.
void ApplyTo(Stage& stage, const StageOptions& options, std::span<const Bytes> sums,
             std::uint64_t step) {
  const bool skip = step == 2;
  if (!options.divided) {
    EXPECT_TRUE(stage.Apply(sums, 0.5, 1e-2, skip).ok());
    return;
  }
  Division division;
  std::vector<Bytes> others;
  std::uint64_t part = 0;
  for (const ParameterSlot& slot : stage.parameters()) {
    if (slot.group != 0) continue;
    const bool own = part % 2 == step % 2;
    division.own.push_back(own);
    const std::vector<float> weights(own || skip ? 0 : slot.count, 0.125F);
    others.push_back(Bytes::Copy(weights.data(), weights.size() * sizeof(float)));
    if (own && !stage.HoldsPart(part)) {
      const std::vector<float> moments(stage.MomentBytes(part) / sizeof(float), 0.25F);
      const Bytes bytes = Bytes::Copy(moments.data(), moments.size() * sizeof(float));
      EXPECT_TRUE(stage.TakeMoments(part, bytes).ok());
    }
    if (options.accumulation == api::Accumulation::kExact) division.magnitude_bits.push_back(40);
    ++part;
  }
  const auto made = stage.BeginApply(sums, 0.5, 1e-2, skip, division);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  for (std::uint64_t p = 0; p < part; ++p) {
    EXPECT_EQ((*made)[p].empty(), skip || !division.own[p]);
  }
  EXPECT_TRUE(stage.FinishApply(others).ok());
}

/// Losses and states of three steps of two stages. The host submits what it can before it waits.
std::vector<std::string> BitsOf(const StageOptions& options,
                                const std::shared_ptr<FakeDevice>& first,
                                const std::shared_ptr<FakeDevice>& last) {
  std::unique_ptr<Stage> stages[2];
  for (std::uint64_t s = 0; s < 2; ++s) {
    StageOptions of_stage = options;
    of_stage.streams = s == 0 ? first : last;
    stages[s] = MakeStage(of_stage, s);
  }
  const bool delayed = options.step_mode == api::StepMode::kDelayed;
  std::vector<std::string> bits;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Version version(delayed && step > 0 ? step - 1 : step);
    std::vector<std::unique_ptr<Batch>> batches;
    std::vector<std::future<Result<ForwardResult>>> boundaries, losses;
    std::vector<std::future<Result<BackwardResult>>> gradients, ends;
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      batches.push_back(std::make_unique<Batch>(2, 9, step * 100 + m, options.config.vocab_size));
      auto [done, result] = Expected<ForwardResult>();
      stages[0]->SubmitForward(KeyOf(step, m, 0), version, batches[m]->tokens, Bytes(),
                               /*keep_graph=*/true, done);
      boundaries.push_back(std::move(result));
    }
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const Bytes boundary = boundaries[m].get()->boundary;
      auto [done, result] = Expected<ForwardResult>();
      stages[1]->SubmitForward(KeyOf(step, m, 1), version, batches[m]->tokens, boundary,
                               /*keep_graph=*/true, done);
      losses.push_back(std::move(result));
      auto [then, gradient] = Expected<BackwardResult>();
      stages[1]->SubmitBackward(KeyOf(step, m, 1), Bytes(), then);
      gradients.push_back(std::move(gradient));
    }
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      bits.push_back(std::to_string(losses[m].get()->loss));
      auto [done, end] = Expected<BackwardResult>();
      stages[0]->SubmitBackward(KeyOf(step, m, 0), gradients[m].get()->gradient, done);
      ends.push_back(std::move(end));
      for (std::uint64_t s = 0; s < 2; ++s) EXPECT_TRUE(stages[s]->Fold(KeyOf(step, m, s)).ok());
    }
    for (auto& end : ends) EXPECT_TRUE(end.get().ok());
    for (const auto& stage : stages) {
      std::vector<Bytes> sums;
      for (std::size_t g = 0; g < stage->groups().size(); ++g) {
        const GradientSum sum = stage->Accumulator(Step(step), g);
        // As a leaver's sums come to its heir.
        EXPECT_TRUE(stage->Absorb(Step(step), g, sum.elements, sum.finite).ok());
        // As they are, and as they come from others.
        const Bytes elements = stage->Accumulator(Step(step), g).elements;
        sums.push_back(step == 1 ? Bytes::Copy(elements.text()) : elements);
      }
      ApplyTo(*stage, options, sums, step);
      stage->ReleaseStep(Step(step));
      bits.push_back(stage->StateDigest().Hex());
    }
  }
  // What a joiner takes is what it gives.
  for (std::uint64_t s = 0; s < 2; ++s) {
    StageOptions of_stage = options;
    of_stage.streams = s == 0 ? first : last;
    const auto joiner = MakeStage(of_stage, s);
    std::map<std::string, checkpoint::NamedTensor> state;
    for (const auto& tensor : stages[s]->Snapshot()) state[tensor.name] = tensor;
    const Status loaded =
        joiner->Load(testing::LookupIn(state), stages[s]->version(), /*optimizer=*/true);
    EXPECT_TRUE(loaded.ok()) << loaded.ToString();
    EXPECT_EQ(joiner->StateDigest().Hex(), bits[bits.size() - 2 + s]);
  }
  return bits;
}

void ExpectTheBitsOfTheCpu(const StageOptions& options, std::uint64_t seeds) {
  const auto expected = BitsOf(options, nullptr, nullptr);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto first = std::make_shared<FakeDevice>(seed);
    const auto last = std::make_shared<FakeDevice>(~seed);
    EXPECT_EQ(BitsOf(options, first, last), expected);
    for (const auto& device : {first, last}) {
      EXPECT_EQ(device->Violations(), std::vector<std::string>());
      EXPECT_EQ(device->CountPieces(), 0u);
    }
  }
}

std::vector<Case> DeviceCases() {
  std::vector<Case> cases = testing::Cases();
  for (const auto codec :
       {api::BoundaryCodec::kBF16, api::BoundaryCodec::kInt8, api::BoundaryCodec::kInt8Dynamic}) {
    cases.push_back({.name = std::string(NameOf(codec)), .boundary = {.codec = codec}});
  }
  return cases;
}

class LateDeviceTest : public ::testing::TestWithParam<testing::CaseAndResidency> {};

TEST_P(LateDeviceTest, ALateDeviceHasTheBitsOfTheCpu) {
  StageOptions options = testing::OptionsOf(std::get<Case>(GetParam()), {3});
  options.residency = std::get<api::Residency>(GetParam());
  ExpectTheBitsOfTheCpu(options, 1);
}

INSTANTIATE_TEST_SUITE_P(Codecs, LateDeviceTest, testing::WithEachResidency(DeviceCases()),
                         testing::NameOfBoth);

/// How a job updates its weights.
struct Way {
  std::string name;
  api::OptimizerType optimizer = api::OptimizerType::kAdamW;
  api::Accumulation accumulation = api::Accumulation::kFloat;
  api::StepMode step_mode = api::StepMode::kSync;
  api::Precision precision = api::Precision::kFP32;
  bool divided = false;
};

std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const auto& [name, optimizer] : {std::pair("AdamW", api::OptimizerType::kAdamW),
                                        std::pair("Lamb", api::OptimizerType::kLAMB),
                                        std::pair("Muon", api::OptimizerType::kMuon)}) {
    ways.push_back({.name = name, .optimizer = optimizer});
    ways.push_back({.name = std::string(name) + "ExactDelayed",
                    .optimizer = optimizer,
                    .accumulation = api::Accumulation::kExact,
                    .step_mode = api::StepMode::kDelayed});
    ways.push_back({.name = std::string(name) + "ExactDivided",
                    .optimizer = optimizer,
                    .accumulation = api::Accumulation::kExact,
                    .divided = true});
  }
  ways.push_back({.name = "Delayed", .step_mode = api::StepMode::kDelayed});
  ways.push_back({.name = "DelayedDivided", .step_mode = api::StepMode::kDelayed, .divided = true});
  ways.push_back({.name = "BFloat16", .precision = api::Precision::kBF16});
  return ways;
}

class LateUpdateTest : public ::testing::TestWithParam<Way> {};

TEST_P(LateUpdateTest, AnUpdateOnALateDeviceHasTheBitsOfTheCpu) {
  const std::vector<Case> cases = testing::Cases();
  for (const char* name : {"AnchoredTiedAndShared", "SubspaceTurning"}) {
    SCOPED_TRACE(name);
    StageOptions options = testing::OptionsOf(*std::ranges::find(cases, name, &Case::name), {3});
    const Way& way = GetParam();
    options.optimizer.type = way.optimizer;
    options.accumulation = way.accumulation;
    options.step_mode = way.step_mode;
    options.precision = way.precision;
    options.divided = way.divided;
    for (const auto residency : {api::Residency::kResident, api::Residency::kOffload}) {
      options.residency = residency;
      ExpectTheBitsOfTheCpu(options, 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, LateUpdateTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.name; });

TEST(DeviceTest, AStageThatEndsWhileWorkIsUnderWayLeavesNothing) {
  const auto device = std::make_shared<FakeDevice>(1);
  StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
  options.streams = device;
  const Batch batch(2, 9, 1, options.config.vocab_size);
  int results = 0;
  {
    const auto stage = MakeStage(options, 0);
    for (std::uint64_t m = 0; m < 5; ++m) {
      stage->SubmitForward(KeyOf(0, m, 0), Version(0), batch.tokens, Bytes(), true,
                           [&](const Result<ForwardResult>& result) { results += result.ok(); });
    }
    stage->Drop(KeyOf(0, 1, 0));
    stage->ReleaseStep(Step(0));
  }
  EXPECT_EQ(results, 5);
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(DeviceTest, AStateOnADeviceIsReadBesideTheComputeAndTheUpdateWaits) {
  const auto device = std::make_shared<FakeDevice>(4);
  {
    StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
    options.streams = device;
    const Batch batch(2, 9, 1, options.config.vocab_size);
    const auto stage = MakeStage(options, 0);
    const std::string expected = stage->StateDigest().Hex();
    std::vector<checkpoint::NamedTensor> state = stage->State();
    EXPECT_TRUE(
        std::ranges::any_of(state, [](const auto& tensor) { return tensor.elsewhere != nullptr; }));
    auto read = std::async(std::launch::async, [state = std::move(state)]() mutable {
      const auto taken = std::exchange(state, {});
      const auto digest = checkpoint::DigestState(taken);
      return digest.ok() ? digest->Hex() : digest.status().message();
    });
    const auto boundary = stage->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true);
    ASSERT_TRUE(boundary.ok());
    ASSERT_TRUE(stage->Backward(KeyOf(0, 0, 0), boundary->boundary).ok());
    ASSERT_TRUE(stage->Fold(KeyOf(0, 0, 0)).ok());
    const Bytes sum = stage->Accumulator(Step(0), 0).elements;
    ASSERT_TRUE(stage->Apply({&sum, 1}, 1, 1e-2, false).ok());
    EXPECT_EQ(read.get(), expected);
    EXPECT_NE(stage->StateDigest().Hex(), expected);
  }
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(DeviceTest, ADeviceDigestsThePiecesOfItsState) {
  const auto device = std::make_shared<FakeDevice>(6);
  {
    StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
    options.config.vocab_size = 100'000;  // 9.6 MB of embedding: a piece, and parts of others
    const auto on_cpu = MakeStage(options, 0);
    options.streams = device;
    const auto on_device = MakeStage(options, 0);
    EXPECT_EQ(on_device->StateDigest().Hex(), on_cpu->StateDigest().Hex());
    const std::vector<checkpoint::NamedTensor> state = on_device->State();
    const auto embedding =
        std::ranges::find(state, "model.embed_tokens.weight", &checkpoint::NamedTensor::name);
    ASSERT_NE(embedding, state.end());
    const std::uint64_t begin = 68, size = checkpoint::kPieceBytes;
    EXPECT_FALSE(embedding->elsewhere->KnownDigest(begin, size).has_value());
    embedding->elsewhere->ExpectPieces(begin, size, 2);
    for (const std::uint64_t offset : {begin, begin + size}) {
      const auto known = embedding->elsewhere->KnownDigest(offset, size);
      ASSERT_TRUE(known.has_value());
      std::vector<std::byte> piece(size);
      ASSERT_TRUE(embedding->elsewhere->Read(offset, piece).ok());
      EXPECT_EQ(known->Hex(), ComputeDigest(std::span<const std::byte>(piece)).Hex());
    }
    const GradientSum sum = on_device->Accumulator(Step(0), 0);
    ASSERT_EQ(sum.piece_digests.size(), sum.elements.size() / size);
    EXPECT_EQ(sum.piece_digests.at(1).Hex(),
              ComputeDigest(sum.elements.span().subspan(size, size)).Hex());
    EXPECT_FALSE(embedding->elsewhere->KnownDigest(begin + 4, size).has_value());
    EXPECT_FALSE(embedding->elsewhere->KnownDigest(begin + 2 * size, size).has_value());
  }
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
  EXPECT_EQ(device->CountPieces(), 0u);
}

TEST(DeviceTest, SumsThatStayOnADeviceAreAppliedAsThoseThatCross) {
  for (const auto optimizer : {api::OptimizerType::kAdamW, api::OptimizerType::kLAMB}) {
    for (const auto mode : {api::StepMode::kSync, api::StepMode::kDelayed}) {
      SCOPED_TRACE(std::string(NameOf(optimizer)) + std::string(NameOf(mode)));
      const auto device = std::make_shared<FakeDevice>(5);
      {
        StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
        options.optimizer.type = optimizer;
        options.step_mode = mode;
        const auto on_cpu = MakeStage(options, 0);
        options.streams = device;
        const auto on_device = MakeStage(options, 0);
        EXPECT_FALSE(on_cpu->AppliesOwn());
        ASSERT_TRUE(on_device->AppliesOwn());
        for (std::uint64_t step = 0; step < 3; ++step) {
          const Version version(mode == api::StepMode::kDelayed && step > 0 ? step - 1 : step);
          const Batch batch(2, 9, step, options.config.vocab_size);
          for (const auto& stage : {on_cpu.get(), on_device.get()}) {
            const TaskKey key = KeyOf(step, 0, 0);
            const auto boundary = stage->Forward(key, version, batch.tokens, Bytes(), true);
            ASSERT_TRUE(boundary.ok()) << boundary.status().ToString();
            ASSERT_TRUE(stage->Backward(key, boundary->boundary).ok());
            ASSERT_TRUE(stage->Fold(key).ok());
          }
          const Bytes sum = on_cpu->Accumulator(Step(step), 0).elements;
          std::vector<double> norms;
          for (const ParameterSlot& slot : on_cpu->parameters()) {
            norms.push_back(optim::SquaredNorm(
                testing::ElementsOf<float>(sum).subspan(slot.offset, slot.count)));
          }
          const auto own = on_device->OwnNorms(Step(step), 0);
          ASSERT_TRUE(own.ok()) << own.status().ToString();
          EXPECT_EQ(*own, norms);
          const GradientSum there = on_device->Accumulator(Step(step), 0);
          EXPECT_EQ(there.elements.text(), sum.text());
          EXPECT_EQ(there.squared_norms, norms);
          const bool skip = step == 1;
          ASSERT_TRUE(on_cpu->Apply({&sum, 1}, 0.5, 1e-2, skip).ok());
          ASSERT_TRUE(on_device->ApplyOwn(0.5, 1e-2, skip).ok());
          for (const auto& stage : {on_cpu.get(), on_device.get()}) stage->ReleaseStep(Step(step));
          EXPECT_EQ(on_device->StateDigest().Hex(), on_cpu->StateDigest().Hex());
        }
      }
      EXPECT_EQ(device->Violations(), std::vector<std::string>());
      EXPECT_EQ(device->CountPieces(), 0u);
    }
  }
}

TEST(DeviceTest, AGroupWithoutATrainedParameterLeavesNoKernelsBehind) {
  const auto device = std::make_shared<FakeDevice>(7);
  std::promise<void> others_are_done;
  {
    StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
    options.lora.rank = 2;
    options.part = Slice{.first = 0, .count = 0, .embedding = true};
    options.accumulation = api::Accumulation::kFloat;
    options.streams = device;
    const auto stage = MakeStage(options, 0);
    ASSERT_EQ(stage->groups().front().count, 0u);
    device->ComputeBeside({}, [done = others_are_done.get_future().share()](auto) { done.wait(); });
    EXPECT_TRUE(stage->Accumulator(Step(0), 0).squared_norms.empty());
  }
  others_are_done.set_value();
  device->Wait(device::Stream::kCompute, device->Record(device::Stream::kState));
  device->Compute({}, [] {});
  EXPECT_EQ(device->Violations(), std::vector<std::string>());
}

TEST(DeviceTest, AMicrobatchOnADeviceThatFallsOffSaysSo) {
  const auto device = std::make_shared<FakeDevice>(2);
  StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
  options.streams = device;
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto stage = MakeStage(options, 0);
  ASSERT_TRUE(stage->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true).ok());
  device->Break(Internal("the device fell off the bus"));
  const auto result = stage->Forward(KeyOf(0, 1, 0), Version(0), batch.tokens, Bytes(), true);
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
}

TEST(DeviceTest, WhatCannotBeReadIsRefusedAtOnceAndTheGraphStays) {
  const auto device = std::make_shared<FakeDevice>(3);
  StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
  options.streams = device;
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto stage = MakeStage(options, 0);
  const auto boundary = stage->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true);
  ASSERT_TRUE(boundary.ok());
  bool refused = false;
  stage->SubmitBackward(KeyOf(0, 0, 0), Bytes::Copy("short"),
                        [&](const Result<BackwardResult>& result) {
                          refused = result.status().code() == StatusCode::kDataLoss;
                        });
  EXPECT_TRUE(refused);
  EXPECT_TRUE(stage->Backward(KeyOf(0, 0, 0), boundary->boundary).ok());
}

/// The digest of the gradients of one microbatch, whose last boundary gets this gradient.
std::uint64_t GradientsDigest(StageOptions options, std::shared_ptr<FakeDevice> device,
                              const Bytes& gradient) {
  options.streams = std::move(device);
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto stage = MakeStage(options, 0);
  EXPECT_TRUE(stage->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true).ok());
  std::promise<std::uint64_t> digest;
  stage->SubmitBackward(KeyOf(0, 0, 0), gradient, [&](const Result<BackwardResult>& result) {
    digest.set_value(result.ok() ? result->gradients : 0);
  });
  return digest.get_future().get();
}

TEST(DeviceTest, TheDigestOfGradientsTellsOneBit) {
  StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
  options.accumulation = api::Accumulation::kExact;
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto boundary =
      MakeStage(options, 0)->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true);
  ASSERT_TRUE(boundary.ok());
  const Bytes& right = boundary->boundary;
  const Bytes wrong = Bytes::Make(right.size(), [&](std::byte* to) {
    std::memcpy(to, right.data(), right.size());
    to[right.size() / 2] ^= std::byte{0x10};
  });
  EXPECT_EQ(GradientsDigest(options, nullptr, right), 0u) << "nobody has asked for it";
  options.audited = true;
  for (const bool on_device : {false, true}) {
    const auto device = [&] { return on_device ? std::make_shared<FakeDevice>(5) : nullptr; };
    const std::uint64_t expected = GradientsDigest(options, device(), right);
    EXPECT_NE(expected, 0u);
    EXPECT_EQ(GradientsDigest(options, device(), right), expected);
    EXPECT_NE(GradientsDigest(options, device(), wrong), expected);
  }
}

}  // namespace
}  // namespace swarm::model
