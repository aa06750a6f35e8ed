// Stages on a GPU train as stages on the CPU do, and exact ones have the same bits every time.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "api/format/enum_names.h"
#include "worker/codec/cuda/testing/device.h"
#include "worker/model/open_device.h"
#include "worker/model/testing/boundaries.h"

namespace swarm::model {
namespace {

using testing::Batch;
using testing::Case;
using testing::Pipeline;

constexpr std::uint64_t kSteps = 3, kMicrobatches = 2;

struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> gradients;  ///< of the first step; Float only
  std::map<std::string, std::string> state;
};

/// What two stages make of three steps.
Trained Train(StageOptions options, const std::string& device) {
  options.device = device;
  options.microbatches = kMicrobatches;
  Pipeline pipeline(options, 2);
  pipeline.InitRandom(testing::kSeed);
  const bool delayed = options.step_mode == api::StepMode::kDelayed;
  Trained trained;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const Version version(delayed && step > 0 ? step - 1 : step);
    for (std::uint64_t m = 0; m < kMicrobatches; ++m) {
      const Batch batch(2, 33, step * 100 + m, options.config.vocab_size);
      trained.losses.push_back(pipeline.Train(step, m, version, batch.tokens));
    }
    if (step == 0 && options.accumulation == api::Accumulation::kFloat) {
      trained.gradients = pipeline.Gradients(step);
    }
    pipeline.Apply(step, 0.5, 1e-3);
  }
  for (const auto& [name, tensor] : pipeline.Snapshot()) {
    trained.state[name] = std::string(tensor.data.text());
  }
  return trained;
}

/// ||a - b|| / ||a||.
double Apart(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / norm);  // NaN, and so beyond all bounds, where one is
}

/// How far a GPU's losses and gradients may be from the CPU's: relative to each loss, and to the
/// norm of each parameter's gradient.
struct Bounds {
  double losses, gradients;
};

void ExpectNear(const Trained& gpu, const Trained& cpu, Bounds bounds) {
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], bounds.losses * cpu.losses[i]) << "loss " << i;
  }
  ASSERT_EQ(gpu.gradients.size(), cpu.gradients.size());
  for (const auto& [name, gradient] : cpu.gradients) {
    EXPECT_LE(Apart(gradient, gpu.gradients.at(name)), bounds.gradients) << name;
  }
}

class GpuStageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = codec::cuda::WhyNoDevice(); !why.empty()) GTEST_SKIP() << why;
    const auto opened = OpenDevice("cuda:0");  // before the CPU computes
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  }
};

class GpuBoundaryTest : public GpuStageTest,
                        public ::testing::WithParamInterface<testing::CaseAndResidency> {};

TEST_P(GpuBoundaryTest, TrainsAsTheCpuDoes) {
  StageOptions options = testing::OptionsOf(std::get<Case>(GetParam()), {3});
  options.residency = std::get<api::Residency>(GetParam());
  ExpectNear(Train(options, "cuda:0"), Train(options, "cpu"), {1e-5, 1e-5});
}

INSTANTIATE_TEST_SUITE_P(Boundaries, GpuBoundaryTest, testing::WithEachResidency(testing::Cases()),
                         testing::NameOfBoth);

/// A way to train, and how far a rounded computation is from another order of the same.
struct Way {
  std::string name;
  api::OptimizerType optimizer = api::OptimizerType::kAdamW;
  api::StepMode step_mode = api::StepMode::kSync;
  api::Precision precision = api::Precision::kFP32;
  api::BoundaryCodec codec = api::BoundaryCodec::kNone;
  api::Recompute recompute = api::Recompute::kNone;
  Bounds bounds = {1e-5, 1e-5};
};

StageOptions OptionsOf(const Way& way) {
  StageOptions options =
      testing::OptionsOf({.name = way.name, .boundary = {.codec = way.codec}}, {3});
  options.config.head_dim = 16;  // flash attention's are multiples of 8
  options.optimizer.type = way.optimizer;
  options.step_mode = way.step_mode;
  options.precision = way.precision;
  options.recompute = way.recompute;
  return options;
}

std::vector<Way> Ways() {
  constexpr Bounds kRounded = {1e-3, 3e-2};
  return {
      {.name = "Lamb", .optimizer = api::OptimizerType::kLAMB},
      {.name = "Muon", .optimizer = api::OptimizerType::kMuon},
      {.name = "Delayed", .step_mode = api::StepMode::kDelayed},
      {.name = "RecomputeLayers", .recompute = api::Recompute::kLayers},
      {.name = "BoundaryInBF16", .codec = api::BoundaryCodec::kBF16, .bounds = kRounded},
      {.name = "BoundaryInInt8", .codec = api::BoundaryCodec::kInt8, .bounds = kRounded},
      {.name = "BoundaryInDynamic", .codec = api::BoundaryCodec::kInt8Dynamic, .bounds = kRounded},
      {.name = "BFloat16", .precision = api::Precision::kBF16, .bounds = kRounded},
      {.name = "Float16", .precision = api::Precision::kFP16, .bounds = kRounded},
  };
}

class GpuWayTest : public GpuStageTest, public ::testing::WithParamInterface<Way> {};

TEST_P(GpuWayTest, TrainsAsTheCpuDoes) {
  const StageOptions options = OptionsOf(GetParam());
  ExpectNear(Train(options, "cuda:0"), Train(options, "cpu"), GetParam().bounds);
}

TEST_P(GpuWayTest, ExactlyHasTheSameBitsEveryTime) {
  StageOptions options = OptionsOf(GetParam());
  options.accumulation = api::Accumulation::kExact;
  const Trained once = Train(options, "cuda:0"), again = Train(options, "cuda:0");
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.state, again.state);
  ExpectNear(once, Train(options, "cpu"), GetParam().bounds);
}

/// In three segments and more, with their state in a file.
StageOptions Swapped(StageOptions options) {
  options.residency = api::Residency::kSwap;
  options.swap = {.memory = 400'000,
                  .scratch = std::filesystem::temp_directory_path(),
                  .tasks = kMicrobatches,
                  .task_bytes = 2 * 32 * 24 * sizeof(float)};
  return options;
}

TEST_P(GpuWayTest, SwappedItTrainsAsTheCpuDoes) {
  const StageOptions options = OptionsOf(GetParam());
  ExpectNear(Train(Swapped(options), "cuda:0"), Train(options, "cpu"), GetParam().bounds);
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuWayTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace swarm::model
