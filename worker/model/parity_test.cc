// The numbers of Hugging Face's models and torch.optim.AdamW, recorded by
// tests/fixtures/make_decoder_fixtures.py, against ours.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/model/decoder_config.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/model/arithmetic/rotary.h"
#include "worker/model/fold.h"
#include "worker/model/testing/models.h"
#include "worker/optim/norm.h"
#include "worker/optim/schedule.h"
#include "worker/protocol/commit.h"

namespace swarm::model {
namespace {

using testing::FloatsOf;
using testing::LookupIn;
using testing::Pipeline;

// As in make_decoder_fixtures.py.
constexpr double kLearningRate = 3e-3;
constexpr double kMaxNorm = 1.0;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A recorded model.
class Fixture {
 public:
  /// `results`: another file of that folder.
  explicit Fixture(const std::string& name, const std::string& results = "reference.safetensors")
      : folder_(std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/" + name + "/"),
        model_(ReadTensors("model.safetensors")),
        reference_(ReadTensors("reference.safetensors")),
        results_(ReadTensors(results)) {
    std::vector<api::FieldError> errors;
    options_.config = api::ParseDecoderConfig(
        nlohmann::json::parse(ReadFile(folder_ + "config.json")), "config", &errors);
    EXPECT_TRUE(errors.empty()) << api::ToString(errors);
    options_.optimizer = {.weightDecay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
    const checkpoint::NamedTensor tokens = Reference("tokens");
    options_.microbatches = static_cast<std::uint64_t>(tokens.shape[1]);
    steps_ = static_cast<std::uint64_t>(tokens.shape[0]);
    sequences_ = static_cast<std::uint32_t>(tokens.shape[2]);
    columns_ = static_cast<std::uint32_t>(tokens.shape[3]);
    ids_.resize(tokens.data.size() / sizeof(std::int64_t));
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::int64_t id = 0;
      std::memcpy(&id, tokens.data.data() + i * sizeof id, sizeof id);
      ids_[i] = static_cast<std::int32_t>(id);
    }
  }

  const StageOptions& options() const { return options_; }
  std::uint64_t steps() const { return steps_; }
  checkpoint::TensorLookup weights() const {
    return [this](const std::string& name) { return model_.Lookup(name); };
  }
  TokenBatch Tokens(std::uint64_t step, std::uint64_t microbatch) const {
    const std::size_t size = std::size_t{sequences_} * columns_;
    const std::size_t index = step * options_.microbatches + microbatch;
    return {sequences_, columns_, std::span(ids_).subspan(index * size, size)};
  }
  checkpoint::NamedTensor Reference(const std::string& name) const {
    return Find(reference_, name);
  }
  checkpoint::NamedTensor Found(const std::string& name) const { return Find(results_, name); }

 private:
  static checkpoint::NamedTensor Find(const checkpoint::SafetensorsFile& file,
                                      const std::string& name) {
    const auto tensor = file.Lookup(name);
    EXPECT_TRUE(tensor.ok()) << tensor.status().ToString();
    return *tensor;
  }
  checkpoint::SafetensorsFile ReadTensors(const std::string& name) const {
    Result<checkpoint::SafetensorsFile> file =
        checkpoint::ReadSafetensors(Bytes::Copy(ReadFile(folder_ + name)));
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return *file;
  }

  std::string folder_;
  checkpoint::SafetensorsFile model_;
  checkpoint::SafetensorsFile reference_, results_;
  StageOptions options_;
  std::uint64_t steps_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint32_t columns_ = 0;
  std::vector<std::int32_t> ids_;
};

void ExpectClose(std::span<const float> actual, std::span<const float> expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << " " << i;
  }
}

double GradientNorm(Pipeline& pipeline, std::uint64_t step) {
  double squared = 0;
  for (const auto& [name, gradient] : pipeline.Gradients(step)) {
    squared += optim::SquaredNorm(gradient);
  }
  return std::sqrt(squared);
}

void ExpectGradients(Pipeline& pipeline, const Fixture& fixture) {
  for (const auto& [name, gradient] : pipeline.Gradients(0)) {
    ExpectClose(gradient, FloatsOf(fixture.Reference("gradient." + name)), 1e-5,
                "gradient of " + name);
  }
}

/// Trains all steps, each at the rate of its number, and expects the losses of the results.
template <typename RateOf>
void TrainAsRecorded(Pipeline& pipeline, const Fixture& fixture, RateOf rate_of) {
  const std::uint64_t microbatches = fixture.options().microbatches;
  const std::vector<float> losses = FloatsOf(fixture.Found("losses"));
  for (std::uint64_t step = 0; step < fixture.steps(); ++step) {
    for (std::uint64_t m = 0; m < microbatches; ++m) {
      const double expected = losses[step * microbatches + m];
      EXPECT_NEAR(pipeline.Train(step, m, Version(step), fixture.Tokens(step, m)), expected,
                  1e-5 * expected);
    }
    const double clip = protocol::ComputeClip(GradientNorm(pipeline, step), kMaxNorm);
    pipeline.Apply(step, clip, rate_of(step));
  }
}

class ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityTest, LogitsAreThoseOfHuggingFace) {
  const Fixture fixture(GetParam());
  Pipeline pipeline(fixture.options(), 1);
  pipeline.Load(fixture.weights(), Version(0), false);
  const TokenBatch with_labels = fixture.Tokens(0, 0);
  std::vector<std::int32_t> inputs;
  for (std::size_t i = 0; i < with_labels.ids.size(); ++i) {
    if ((i + 1) % with_labels.tokens_per_sequence != 0) inputs.push_back(with_labels.ids[i]);
  }
  const TokenBatch tokens{with_labels.sequences, with_labels.tokens_per_sequence - 1, inputs};
  const Result<Bytes> logits = pipeline.stage(0).Logits(Version(0), tokens);
  ASSERT_TRUE(logits.ok()) << logits.status().ToString();
  ExpectClose(FloatsOf({.data = *logits}), FloatsOf(fixture.Reference("logits")), 1e-5, "logits");
}

TEST_P(ParityTest, ATextReadTokenByTokenGivesTheLogitsOfAllOfIt) {
  const Fixture fixture(GetParam());
  Pipeline pipeline(fixture.options(), 1);
  pipeline.Load(fixture.weights(), Version(0), false);
  Stage& stage = pipeline.stage(0);
  const TokenBatch batch = fixture.Tokens(0, 0);
  const auto ids = batch.ids.first(batch.tokens_per_sequence);
  const Result<Bytes> whole = stage.Logits(Version(0), {1, batch.tokens_per_sequence, ids});
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  const std::vector<float> expected = FloatsOf({.data = *whole});
  const auto vocab = static_cast<std::size_t>(fixture.options().config.vocab_size);
  for (const std::size_t prompt : {std::size_t{1}, ids.size() / 2}) {
    SCOPED_TRACE(std::to_string(prompt) + " tokens at once");
    auto reading = stage.BeginReading(Version(0));
    ASSERT_TRUE(reading.ok()) << reading.status().ToString();
    for (std::size_t read = 0; read < ids.size();) {
      const std::size_t count = read == 0 ? prompt : 1;
      const Result<Bytes> logits = (*reading)->Read(ids.subspan(read, count));
      ASSERT_TRUE(logits.ok()) << logits.status().ToString();
      read += count;
      ExpectClose(FloatsOf({.data = *logits}),
                  std::span(expected).subspan((read - 1) * vocab, vocab), 2e-5,
                  "logits after " + std::to_string(read));
    }
  }
}

TEST_P(ParityTest, TrainsAsHuggingFaceWithAdamWDoes) {
  const Fixture fixture(GetParam());
  const std::vector<float> losses = FloatsOf(fixture.Reference("losses"));
  const std::vector<float> norms = FloatsOf(fixture.Reference("norms"));
  for (const std::uint64_t stage_count : {1, 2, 3}) {
    SCOPED_TRACE(std::to_string(stage_count) + " stages");
    Pipeline pipeline(fixture.options(), stage_count);
    pipeline.Load(fixture.weights(), Version(0), false);
    for (std::uint64_t step = 0; step < fixture.steps(); ++step) {
      for (std::uint64_t m = 0; m < fixture.options().microbatches; ++m) {
        const double expected = losses[step * fixture.options().microbatches + m];
        EXPECT_NEAR(pipeline.Train(step, m, Version(step), fixture.Tokens(step, m)), expected,
                    1e-5 * expected);
      }
      const double norm = GradientNorm(pipeline, step);
      EXPECT_NEAR(norm, norms[step], 1e-5 * norm);
      if (step == 0) ExpectGradients(pipeline, fixture);
      pipeline.Apply(step, protocol::ComputeClip(norm, kMaxNorm), kLearningRate);
    }
    for (const auto& [name, tensor] : pipeline.Snapshot()) {
      if (name.starts_with("optimizer.")) continue;
      ExpectClose(FloatsOf(tensor), FloatsOf(fixture.Reference("trained." + name)), 1e-5, name);
    }
  }
}

TEST_P(ParityTest, LossInBFloat16IsThatOfAutocast) {
  const Fixture fixture(GetParam());
  StageOptions options = fixture.options();
  options.precision = api::Precision::kBF16;
  Pipeline pipeline(options, 2);
  pipeline.Load(fixture.weights(), Version(0), false);
  const double expected = FloatsOf(fixture.Reference("autocast_loss"))[0];
  EXPECT_NEAR(pipeline.Forward(0, 0, Version(0), fixture.Tokens(0, 0)), expected, 2e-3 * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, ParityTest,
                         ::testing::Values("llama_grouped", "llama_tied", "llama3", "mistral",
                                           "qwen2", "qwen3", "smollm3", "gemma2", "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(MuonParityTest, TrainsAsTorchsMuonDoesUnderTheScheduleOfTransformers) {
  // As in make_muon_fixtures.py.
  const api::Schedule schedule{
      .type = api::ScheduleType::kWSD, .decaySteps = 3, .finalFraction = 0.1};
  for (const char* name : {"llama_grouped", "qwen3"}) {
    SCOPED_TRACE(name);
    const Fixture fixture(name, "muon.safetensors");
    StageOptions options = fixture.options();
    options.optimizer.type = api::OptimizerType::kMuon;
    options.optimizer.learningRate = kLearningRate;
    options.optimizer.decayEmbeddings = false;
    Pipeline pipeline(options, 2);
    pipeline.Load(fixture.weights(), Version(0), false);
    TrainAsRecorded(pipeline, fixture, [&](std::uint64_t step) {
      return optim::LearningRate(step, options.optimizer, schedule, fixture.steps());
    });
    for (const auto& [tensor_name, tensor] : pipeline.Snapshot()) {
      if (tensor_name.starts_with("optimizer.")) continue;
      ExpectClose(FloatsOf(tensor), FloatsOf(fixture.Found("trained." + tensor_name)), 1e-5,
                  tensor_name);
    }
  }
}

TEST(LoraParityTest, TrainsAndMergesAsPeftDoes) {
  // As in make_lora_fixtures.py.
  const std::map<std::string, api::Lora> cases{
      {"llama_grouped", {.rank = 4, .alpha = 6}},
      {"qwen2", {.rank = 2, .alpha = 8, .targets = {"k_proj", "up_proj"}}}};
  for (const auto& [name, lora] : cases) {
    for (const std::uint64_t stage_count : {1, 3}) {
      SCOPED_TRACE(name + ", " + std::to_string(stage_count) + " stages");
      const Fixture fixture(name, "lora.safetensors");
      StageOptions options = fixture.options();
      options.lora = lora;
      Pipeline pipeline(options, stage_count);
      pipeline.Load(
          [&](const std::string& tensor) {
            const bool adapter = tensor.find(".lora_") != std::string::npos;
            return adapter ? Result(fixture.Found("start." + tensor)) : fixture.weights()(tensor);
          },
          Version(0), false);
      TrainAsRecorded(pipeline, fixture, [](std::uint64_t) { return kLearningRate; });
      std::size_t trained = 0;
      for (const auto& [tensor_name, tensor] : pipeline.Snapshot()) {
        if (tensor_name.starts_with("optimizer.")) continue;
        const bool adapter = tensor_name.find(".lora_") != std::string::npos;
        trained += adapter ? 1 : 0;
        const auto expected = adapter ? Result(fixture.Found("trained." + tensor_name))
                                      : fixture.weights()(tensor_name);
        ExpectClose(FloatsOf(tensor), FloatsOf(*expected), adapter ? 1e-5 : 0, tensor_name);
      }
      EXPECT_EQ(trained, 2 * 3 * lora.targets.size());
      const auto merged = FoldWeights(options.config, {}, 0, LookupIn(pipeline.Snapshot()), lora);
      ASSERT_TRUE(merged.ok()) << merged.status().ToString();
      for (const auto& tensor : *merged) {
        ExpectClose(FloatsOf(tensor), FloatsOf(fixture.Found("merged." + tensor.name)), 1e-5,
                    tensor.name);
      }
    }
  }
}

TEST(RotaryTest, TheDynamicTypeIsRefusedWhereItWouldStretch) {
  const Fixture fixture("qwen2");
  ASSERT_EQ(fixture.options().config.rope.type, api::RopeType::kDynamic);
  Pipeline pipeline(fixture.options(), 1);
  pipeline.Load(fixture.weights(), Version(0), false);
  const std::vector<std::int32_t> ids(65, 1);
  const TokenBatch longest{1, 64, std::span(ids).first(64)}, longer{1, 65, ids};
  EXPECT_TRUE(pipeline.stage(0).Logits(Version(0), longest).ok());
  EXPECT_EQ(pipeline.stage(0).Logits(Version(0), longer).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RotaryTest, FrequenciesAreThoseOfTransformersForEveryType) {
  const auto reference = nlohmann::json::parse(
      ReadFile(std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/rotary.json"));
  for (const auto& of : reference["cases"]) {
    SCOPED_TRACE(of["name"].get<std::string>());
    const nlohmann::json config = {{"hidden_size", of["head_dim"]},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", 1},
                                   {"intermediate_size", 1},
                                   {"vocab_size", 1},
                                   {"max_position_embeddings", of["max_position_embeddings"]},
                                   {"rope_parameters", of["rope_parameters"]}};
    std::vector<api::FieldError> errors;
    const api::Rope rope = api::ParseDecoderConfig(config, "config", &errors).rope;
    ASSERT_TRUE(errors.empty()) << api::ToString(errors);
    EXPECT_NEAR(rope.attention_factor, of["attention_factor"].get<double>(), 1e-12);
    const auto expected = of["frequencies"].get<std::vector<double>>();
    const std::vector<float> frequencies =
        RotaryFrequencies(rope, of["head_dim"].get<std::int64_t>());
    ASSERT_EQ(frequencies.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(frequencies[i], expected[i], 1e-6 * expected[i]) << "pair " << i;
    }
  }
}

}  // namespace
}  // namespace swarm::model
