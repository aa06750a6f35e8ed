#include "worker/stage/reduce/norms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "worker/protocol/commit.h"

namespace swarm::stage {
namespace {

/// A stage with gradients of one microbatch folded into step 0.
std::unique_ptr<model::Stage> FoldedStage(api::Accumulation accumulation, float gain) {
  model::StageOptions options;
  options.config = {.hidden_size = 8,
                    .num_hidden_layers = 1,
                    .num_attention_heads = 2,
                    .num_key_value_heads = 2,
                    .head_dim = 4,
                    .intermediate_size = 16,
                    .vocab_size = 20};
  options.accumulation = accumulation;
  auto stage = model::Stage::Create(options);
  EXPECT_TRUE(stage.ok()) << stage.status().ToString();
  (*stage)->InitRandom(1);
  std::map<std::string, checkpoint::NamedTensor> tensors;
  for (auto& tensor : (*stage)->Snapshot()) tensors[tensor.name] = tensor;
  checkpoint::NamedTensor& norm = tensors.at("model.norm.weight");
  norm.data = Bytes::Copy(std::vector<float>(8, gain).data(), 8 * sizeof(float));
  const auto lookup = [&](const std::string& name) -> Result<checkpoint::NamedTensor> {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return NotFound("no such tensor");
    return found->second;
  };
  EXPECT_TRUE((*stage)->Load(lookup, protocol::Version(0), true).ok());
  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6};
  const protocol::TaskKey key{};
  EXPECT_TRUE((*stage)->Forward(key, protocol::Version(0), {1, 6, ids}, {}, true).ok());
  EXPECT_TRUE((*stage)->Backward(key, {}).ok());
  EXPECT_TRUE((*stage)->Fold(key).ok());
  return std::move(*stage);
}

std::vector<protocol::TensorNorm> NormsOf(model::Stage& stage) {
  const model::GradientSum own = stage.Accumulator(protocol::Step(0), 0);
  return ComputeTensorNorms(stage, protocol::Step(0), 0, own, own.elements);
}

TEST(TensorNormsTest, OfIntegersAreThoseOfTheFloatsTheyStandFor) {
  const auto floats = NormsOf(*FoldedStage(api::Accumulation::kFloat, 1));
  const auto integers = NormsOf(*FoldedStage(api::Accumulation::kExact, 1));
  ASSERT_EQ(integers.size(), floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(integers[i].tensor, floats[i].tensor);
    EXPECT_NEAR(integers[i].squared, floats[i].squared, 1e-6 * floats[i].squared);
  }
}

TEST(TensorNormsTest, OfAStageThatSawWhatIsNotFiniteMakeTheCommitASkip) {
  const auto norms =
      NormsOf(*FoldedStage(api::Accumulation::kExact, std::numeric_limits<float>::infinity()));
  for (const auto& norm : norms) EXPECT_TRUE(std::isnan(norm.squared)) << norm.tensor;
  EXPECT_TRUE(protocol::DecideCommit({.groups = {{{}, norms}}, .losses = {1.0}}).skip);
}

}  // namespace
}  // namespace swarm::stage
