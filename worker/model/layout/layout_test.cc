#include "worker/model/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "api/format/enum_names.h"
#include "api/model/decoder_config.h"
#include "worker/model/arithmetic/init.h"
#include "worker/model/testing/models.h"

namespace swarm::model {
namespace {

using ::testing::ElementsAre;
using testing::SmallConfig;

std::vector<std::int64_t> LayersOfStages(const api::DecoderConfig& config, std::uint64_t stages) {
  std::vector<std::int64_t> counts;
  std::int64_t next = 0;
  for (std::uint64_t s = 0; s < stages; ++s) {
    const Result<Slice> slice = ComputeSlice(config, s, stages);
    EXPECT_TRUE(slice.ok()) << slice.status().ToString();
    EXPECT_EQ(slice->first, next) << "the slices lie next to each other";
    EXPECT_EQ(slice->embedding, s == 0);
    EXPECT_EQ(slice->head, s + 1 == stages);
    counts.push_back(slice->count);
    next += slice->count;
  }
  EXPECT_EQ(next, config.num_hidden_layers);
  return counts;
}

TEST(SliceTest, IsEvenWhereTheHeadCostsLittle) {
  api::DecoderConfig config = SmallConfig();
  config.vocab_size = 2;
  EXPECT_THAT(LayersOfStages(config, 1), ElementsAre(5));
  EXPECT_THAT(LayersOfStages(config, 2), ElementsAre(3, 2));
  EXPECT_THAT(LayersOfStages(config, 3), ElementsAre(2, 2, 1));
  EXPECT_THAT(LayersOfStages(config, 5), ElementsAre(1, 1, 1, 1, 1));
}

TEST(SliceTest, SparesTheLastStageLayersForACostlyHead) {
  api::DecoderConfig config;  // a head of 1.45 layers
  config.hidden_size = 2048;
  config.num_hidden_layers = 24;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.intermediate_size = 5632;
  config.vocab_size = 32000;
  EXPECT_THAT(LayersOfStages(config, 6), ElementsAre(5, 4, 4, 4, 4, 3));
  config.vocab_size = 1000000;
  EXPECT_THAT(LayersOfStages(config, 4), ElementsAre(8, 8, 7, 1)) << "every stage has a layer";
}

TEST(SliceTest, CutsAtBoundariesThatAreAPartOfTheModel) {
  api::DecoderConfig config = SmallConfig();
  config.num_hidden_layers = 12;
  config.vocab_size = 2;
  api::Boundary boundary{.codec = api::BoundaryCodec::kMaxout,
                         .layers = std::vector<std::uint64_t>{2, 3, 6, 11}};
  const auto first_layers = [&](std::uint64_t stages) {
    std::vector<std::int64_t> layers;
    for (std::uint64_t s = 0; s < stages; ++s) {
      layers.push_back(ComputeSlice(config, s, stages, boundary)->first);
    }
    return layers;
  };
  EXPECT_THAT(first_layers(1), ElementsAre(0));
  EXPECT_THAT(first_layers(2), ElementsAre(0, 6));
  EXPECT_THAT(first_layers(3), ElementsAre(0, 6, 11));
  EXPECT_THAT(first_layers(4), ElementsAre(0, 3, 6, 11));
  EXPECT_THAT(first_layers(5), ElementsAre(0, 2, 3, 6, 11));
  EXPECT_EQ(ComputeSlice(config, 0, 6, boundary).status().code(), StatusCode::kInvalidArgument);
  boundary.codec = api::BoundaryCodec::kInt8;
  EXPECT_THAT(first_layers(6), ElementsAre(0, 2, 4, 6, 8, 10))
      << "what is only sent may be cut anywhere";
}

TEST(SliceTest, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(ComputeSlice(SmallConfig(), 0, 6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ComputeSlice(SmallConfig(), 2, 2).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ComputeSlice(SmallConfig(), 0, 0).status().code(), StatusCode::kInvalidArgument);
}

/// The names of a layout's parameters; checks that they fill the groups without gaps.
std::set<std::string> NamesOf(const Layout& layout) {
  std::set<std::string> names;
  std::vector<std::uint64_t> filled(layout.groups.size());
  for (const ParameterSlot& slot : layout.slots) {
    EXPECT_EQ(slot.offset, filled[slot.group]) << slot.name;
    filled[slot.group] += slot.count;
    EXPECT_TRUE(names.insert(slot.name).second) << slot.name;
  }
  for (std::size_t g = 0; g < filled.size(); ++g) EXPECT_EQ(filled[g], layout.groups[g].count);
  return names;
}

TEST(LayoutTest, TheStagesTogetherHaveTheParametersOfTheWhole) {
  const std::set<std::string> whole = NamesOf(*ComputeParameterLayout(SmallConfig(), 0, 1));
  EXPECT_EQ(whole.size(), 5 * 9 + 3);
  std::set<std::string> all;
  for (std::uint64_t s = 0; s < 3; ++s)
    all.merge(NamesOf(*ComputeParameterLayout(SmallConfig(), s, 3)));
  EXPECT_EQ(all, whole);
}

TEST(LayoutTest, ATiedEmbeddingIsAGroupThatTheFirstAndTheLastStageShare) {
  api::DecoderConfig config = SmallConfig();
  config.tie_word_embeddings = true;
  for (const std::uint64_t s : {0, 2}) {
    const Layout layout = *ComputeParameterLayout(config, s, 3);
    ASSERT_EQ(layout.groups.size(), 2);
    EXPECT_EQ(layout.groups[0].index.value, s);
    EXPECT_EQ(layout.groups[1].index.value, 3);
    EXPECT_EQ(layout.slots.back().name, "model.embed_tokens.weight");
    EXPECT_EQ(layout.slots.back().group, 1);
  }
  EXPECT_EQ(ComputeParameterLayout(config, 1, 3)->groups.size(), 1);
  EXPECT_EQ(ComputeParameterLayout(config, 0, 1)->groups.size(), 2)
      << "also where they are the same stage";
}

TEST(LayoutTest, AdaptersAreAllThatIsSummedAndTheModelIsFrozen) {
  api::DecoderConfig config = SmallConfig();
  config.tie_word_embeddings = true;
  const api::Lora lora{.rank = 2, .targets = {"q_proj", "down_proj"}};
  const std::set<std::string> plain = NamesOf(*ComputeParameterLayout(config, 0, 1));
  std::set<std::string> frozen;
  for (std::uint64_t s = 0; s < 3; ++s) {
    const Layout layout = *ComputeParameterLayout(config, s, 3, {}, lora);
    ASSERT_EQ(layout.groups.size(), 1) << "a frozen table is no group";
    EXPECT_EQ(NamesOf(layout).size(), layout.layers.size() * 4);
    EXPECT_EQ(layout.slots[0].name.substr(layout.slots[0].name.find("self")),
              "self_attn.q_proj.lora_A.weight");
    EXPECT_EQ(layout.slots[0].shape, (std::vector<std::int64_t>{2, 24}));
    EXPECT_EQ(layout.slots[1].start, Start::kZeros);
    std::uint64_t filled = 0;
    for (const ParameterSlot& slot : layout.frozen) {
      EXPECT_EQ(slot.offset, filled) << slot.name;
      EXPECT_EQ(slot.group, 1) << slot.name;
      filled += slot.count;
      frozen.insert(slot.name);
    }
    EXPECT_EQ(filled, layout.frozen_count);
  }
  EXPECT_EQ(frozen, plain);
  const api::Boundary part_of_model{.codec = api::BoundaryCodec::kBottleneck};
  EXPECT_EQ(ComputeParameterLayout(config, 0, 3, part_of_model, lora).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(LayoutTest, RefusesHeadsThatDoNotDivide) {
  api::DecoderConfig config = SmallConfig();
  config.num_key_value_heads = 3;
  EXPECT_EQ(ComputeParameterLayout(config, 0, 1).status().code(), StatusCode::kInvalidArgument);
  config = SmallConfig();
  config.head_dim = 5;
  EXPECT_EQ(ComputeParameterLayout(config, 0, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST(LayoutTest, HasTheParametersThatTheConfigCountsUnderTheNamesOfTheFamily) {
  using api::ModelFamily;
  for (const ModelFamily family :
       {ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kQwen2, ModelFamily::kQwen3,
        ModelFamily::kSmolLM3, ModelFamily::kGemma2, ModelFamily::kGemma3}) {
    SCOPED_TRACE(NameOf(family));
    api::DecoderConfig config = SmallConfig();
    config.attention_input_bias = api::DefaultsOf(family).attention_input_bias;
    config.head_norms = api::DefaultsOf(family).head_norms;
    config.post_norms = api::DefaultsOf(family).post_norms;
    config.unit_offset_gains = api::DefaultsOf(family).unit_offset_gains;
    const bool gemma = config.post_norms;
    const auto layout = ComputeParameterLayout(config, 0, 1);
    ASSERT_TRUE(layout.ok()) << layout.status().ToString();
    EXPECT_EQ(layout->groups[0].count, api::ParameterCount(config));
    std::map<std::string, ParameterSlot> slots;
    for (const ParameterSlot& slot : layout->slots) slots[slot.name] = slot;
    const std::string attention = "model.layers.4.self_attn.";
    EXPECT_EQ(slots.contains(attention + "k_proj.bias"), family == ModelFamily::kQwen2);
    EXPECT_EQ(slots.contains(attention + "q_norm.weight"),
              family == ModelFamily::kQwen3 || family == ModelFamily::kGemma3);
    EXPECT_EQ(slots.contains("model.layers.4.pre_feedforward_layernorm.weight"), gemma);
    for (const auto& [name, slot] : slots) {
      EXPECT_EQ(slot.decays, slot.shape.size() > 1) << name;
      const bool zeros = name.ends_with("bias") || (gemma && slot.shape.size() == 1);
      EXPECT_EQ(slot.start == Start::kZeros, zeros) << name;
    }
  }
}

TEST(InitTest, DrawsFromTheNormalDistribution) {
  constexpr std::size_t kCount = 400001;
  std::vector<float> values(kCount);
  FillNormal(3, "x", 2.0, values);
  double moments[5] = {};
  std::size_t beyond = 0;
  for (const float value : values) {
    const double z = value / 2.0;
    for (int power = 1; power <= 4; ++power) moments[power] += std::pow(z, power) / kCount;
    beyond += std::abs(z) > 1.959964 ? 1 : 0;
  }
  EXPECT_NEAR(moments[1], 0, 0.01);
  EXPECT_NEAR(moments[2], 1, 0.01);
  EXPECT_NEAR(moments[3], 0, 0.03);
  EXPECT_NEAR(moments[4], 3, 0.1);
  EXPECT_NEAR(static_cast<double>(beyond) / kCount, 0.05, 0.002);
}

TEST(InitTest, DependsOnSeedNameAndPositionAlone) {
  std::vector<float> values(101), longer(200), other_name(101), other_seed(101);
  FillNormal(3, "x", 1.0, values);
  FillNormal(3, "x", 1.0, longer);
  FillNormal(3, "y", 1.0, other_name);
  FillNormal(4, "x", 1.0, other_seed);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), longer.begin()));
  EXPECT_NE(values, other_name);
  EXPECT_NE(values, other_seed);
}

TEST(InitTest, IsTheFormulaOfBoxAndMuller) {
  std::vector<float> values(1000);
  FillNormal(9, "x", 1.0, values);
  const std::uint64_t key = MixName(9, "x");
  const auto uniform = [&](std::uint64_t i) { return ((MixAll(key, i) >> 12) + 0.5) * 0x1.0p-52; };
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double angle = 2 * M_PI * uniform(i + 1) - M_PI / 4;
    const double radius = std::sqrt(-2 * std::log(uniform(i)));
    EXPECT_NEAR(values[i], radius * std::cos(angle), 1e-6);
    EXPECT_NEAR(values[i + 1], radius * std::sin(angle), 1e-6);
  }
}

}  // namespace
}  // namespace swarm::model
