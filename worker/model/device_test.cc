// A stage on a device whose copies and results are late has the bits of one on the CPU, and never
// touches memory too early.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/format/enum_names.h"
#include "worker/device/testing/fake_device.h"
#include "worker/model/testing/boundaries.h"

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

/// Losses and states of two steps of two stages. The host submits what it can before it waits.
std::vector<std::string> BitsOf(const StageOptions& options,
                                const std::shared_ptr<FakeDevice>& first,
                                const std::shared_ptr<FakeDevice>& last) {
  std::unique_ptr<Stage> stages[2];
  for (std::uint64_t s = 0; s < 2; ++s) {
    StageOptions of_stage = options;
    of_stage.streams = s == 0 ? first : last;
    stages[s] = MakeStage(of_stage, s);
  }
  std::vector<std::string> bits;
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<std::unique_ptr<Batch>> batches;
    std::vector<std::future<Result<ForwardResult>>> boundaries, losses;
    std::vector<std::future<Result<BackwardResult>>> gradients, ends;
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      batches.push_back(std::make_unique<Batch>(2, 9, step * 100 + m, options.config.vocab_size));
      auto [done, result] = Expected<ForwardResult>();
      stages[0]->SubmitForward(KeyOf(step, m, 0), Version(step), batches[m]->tokens, Bytes(),
                               /*keep_graph=*/true, done);
      boundaries.push_back(std::move(result));
    }
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const Bytes boundary = boundaries[m].get()->boundary;
      auto [done, result] = Expected<ForwardResult>();
      stages[1]->SubmitForward(KeyOf(step, m, 1), Version(step), batches[m]->tokens, boundary,
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
        sums.push_back(stage->Accumulator(Step(step), g).elements);
      }
      EXPECT_TRUE(stage->Apply(sums, 1, 1e-2, false).ok());
      stage->ReleaseStep(Step(step));
      bits.push_back(stage->StateDigest().Hex());
    }
  }
  return bits;
}

std::vector<Case> DeviceCases() {
  std::vector<Case> cases = testing::Cases();
  for (const auto codec :
       {api::BoundaryCodec::kBF16, api::BoundaryCodec::kInt8, api::BoundaryCodec::kInt8Dynamic}) {
    cases.push_back({.name = std::string(NameOf(codec)), .boundary = {.codec = codec}});
  }
  return cases;
}

class LateDeviceTest : public ::testing::TestWithParam<Case> {};

TEST_P(LateDeviceTest, ALateDeviceHasTheBitsOfTheCpu) {
  const StageOptions options = testing::OptionsOf(GetParam(), {3});
  const auto expected = BitsOf(options, nullptr, nullptr);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto first = std::make_shared<FakeDevice>(seed);
    const auto last = std::make_shared<FakeDevice>(~seed);
    EXPECT_EQ(BitsOf(options, first, last), expected);
    for (const auto& device : {first, last}) {
      EXPECT_EQ(device->Violations(), std::vector<std::string>());
      EXPECT_EQ(device->CountPieces(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, LateDeviceTest, ::testing::ValuesIn(DeviceCases()),
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

TEST(DeviceTest, AMicrobatchOnADeviceThatFallsOffSaysSo) {
  const auto device = std::make_shared<FakeDevice>(2);
  StageOptions options = testing::OptionsOf(testing::Cases().front(), {3});
  options.streams = device;
  const Batch batch(2, 9, 1, options.config.vocab_size);
  const auto stage = MakeStage(options, 0);
  ASSERT_TRUE(stage->Forward(KeyOf(0, 0, 0), Version(0), batch.tokens, Bytes(), true).ok());
  device->Break(Unavailable("the device fell off the bus"));
  const auto result = stage->Forward(KeyOf(0, 1, 0), Version(0), batch.tokens, Bytes(), true);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
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

}  // namespace
}  // namespace swarm::model
