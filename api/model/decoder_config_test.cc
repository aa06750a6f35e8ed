#include "api/model/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/validate.h"

namespace swarm::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// As Transformers 4 writes it for Llama 2.
constexpr std::string_view kTransformers4 = R"({
  "_name_or_path": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": [2, 3], "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.45.0",
  "use_cache": true, "vocab_size": 32000})";

json Llama() { return json::parse(kTransformers4); }

/// The smallest config of a family.
json Small(const char* model_type, std::int64_t layers = 4) {
  return {{"model_type", model_type}, {"hidden_size", 16},       {"num_hidden_layers", layers},
          {"num_attention_heads", 4}, {"intermediate_size", 24}, {"vocab_size", 64}};
}

json With(json value, const json& changes) {
  value.update(changes);
  return value;
}

DecoderConfig Parsed(const json& value) {
  std::vector<FieldError> errors;
  const DecoderConfig config = ParseDecoderConfig(value, "config", &errors);
  EXPECT_EQ(ToString(errors), "");
  return config;
}

std::string Errors(const json& value) {
  std::vector<FieldError> errors;
  const DecoderConfig config = ParseDecoderConfig(value, "config", &errors);
  if (errors.empty()) errors = ValidateDecoderConfig(config, "config");
  return ToString(errors);
}

std::string Refusal(const char* key, json wrong) { return Errors(With(Llama(), {{key, wrong}})); }

json ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file);
}

std::vector<std::int64_t> Windows(const DecoderConfig& config) {
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    windows.push_back(LayerOf(config, i).window);
  }
  return windows;
}

std::vector<bool> Rotary(const DecoderConfig& config) {
  std::vector<bool> rotary;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    rotary.push_back(LayerOf(config, i).rotary);
  }
  return rotary;
}

TEST(DecoderConfigTest, ReadsWhatTransformersWrites) {
  const DecoderConfig config = Parsed(Llama());
  EXPECT_EQ(config.family, ModelFamily::kLlama);
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope, (Rope{.theta = 500000.0}));
  EXPECT_TRUE(config.layers.empty());
}

TEST(DecoderConfigTest, PublishedConfigsParseAndHaveTheParametersThatTransformersCounts) {
  const std::filesystem::path folder = SWARM_SOURCE_DIR "/tests/fixtures";
  const json counts = ReadJson(folder / "configs.json")["parameters"];
  EXPECT_GE(counts.size(), 10u);
  for (const auto& [name, count] : counts.items()) {
    SCOPED_TRACE(name);
    const json published = ReadJson(folder / "configs" / (name + ".json"));
    EXPECT_EQ(Errors(published), "");
    const DecoderConfig config = Parsed(published);
    EXPECT_EQ(ParameterCount(config), count.get<std::uint64_t>());
    const json written = DecoderConfigToJson(config);
    EXPECT_EQ(written["model_type"], published["model_type"]);
    EXPECT_EQ(written["architectures"], published["architectures"]);
    EXPECT_EQ(Parsed(written), config);
  }
}

TEST(DecoderConfigTest, AnAbsentKeyHasTheDefaultOfTheFamilysClass) {
  EXPECT_EQ(Parsed(Small("llama")).num_key_value_heads, 4);
  EXPECT_EQ(Parsed(With(Small("mistral"), {{"num_attention_heads", 8}})).num_key_value_heads, 8);
  EXPECT_EQ(Parsed(With(Small("qwen2"), {{"num_key_value_heads", nullptr}})).num_key_value_heads,
            4);
  EXPECT_EQ(Parsed(With(Small("qwen3"), {{"num_key_value_heads", 2}})).head_dim, 128);
  const DecoderConfig smol = Parsed(Small("smollm3"));
  EXPECT_EQ(smol.rope.theta, 2e6);
  EXPECT_TRUE(smol.tie_word_embeddings);
  EXPECT_EQ(smol.max_position_embeddings, 32768);
}

TEST(DecoderConfigTest, AFamilySwitchesOnWhatItHas) {
  EXPECT_TRUE(Parsed(Small("qwen2")).attention_input_bias);
  EXPECT_FALSE(Parsed(Small("qwen2")).head_norms);
  EXPECT_TRUE(Parsed(Small("qwen3")).head_norms);
  EXPECT_FALSE(Parsed(Small("qwen3")).attention_input_bias);
}

TEST(DecoderConfigTest, ReadsTheRotaryParametersOfTransformers5) {
  json value = Llama();
  value.erase("rope_theta");
  value.erase("rope_scaling");
  value["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(Parsed(value).rope.theta, 1e6);
  EXPECT_EQ(
      Errors(With(value, {{"rope_theta", 1e4}})),
      "config.rope_parameters.rope_theta: differs from rope_theta beside it; write one of them");
}

TEST(DecoderConfigTest, BothSpellingsOfAScaledRotaryEmbeddingAreTheSame) {
  const json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  const Rope expected{.type = RopeType::kLlama3,
                      .theta = 500000.0,
                      .factor = 8,
                      .original_max_position_embeddings = 8192};
  for (const char* key : {"type", "rope_type"}) {
    const json older = With(Llama(), {{"rope_scaling", With(scaling, {{key, "llama3"}})}});
    EXPECT_EQ(Parsed(older).rope, expected) << key;
  }
  json newer = Llama();
  newer.erase("rope_theta");
  newer["rope_parameters"] = With(scaling, {{"rope_type", "llama3"}, {"rope_theta", 500000.0}});
  EXPECT_EQ(Parsed(newer).rope, expected);
}

TEST(DecoderConfigTest, YarnTakesWhatItIsNotToldFromTheRest) {
  const auto yarn = [](const json& more) {
    return Parsed(With(Llama(), {{"rope_scaling", With({{"rope_type", "yarn"}}, more)}})).rope;
  };
  const Rope plain = yarn({{"factor", 4.0}});
  EXPECT_EQ(plain.original_max_position_embeddings, 4096);
  EXPECT_NEAR(plain.attention_factor, 1.1386294, 1e-6);  // 0.1 ln 4 + 1
  EXPECT_EQ(yarn({{"original_max_position_embeddings", 512}}).factor, 8);
  EXPECT_EQ(yarn({{"factor", 4.0}, {"attention_factor", 1.5}}).attention_factor, 1.5);
}

TEST(DecoderConfigTest, AWindowIsWhereTheFamilysClassPutsIt) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(Windows(Parsed(With(Small("mistral"), {{"num_attention_heads", 8}}))),
            (List{4096, 4096, 4096, 4096}));
  json mistral = With(Small("mistral"), {{"num_attention_heads", 8}, {"sliding_window", nullptr}});
  EXPECT_EQ(Windows(Parsed(mistral)), (List{0, 0, 0, 0}));
  // Qwen: only with use_sliding_window, from layer max_window_layers on.
  const json qwen = With(Small("qwen2"), {{"sliding_window", 9}, {"max_window_layers", 2}});
  EXPECT_EQ(Windows(Parsed(qwen)), (List{0, 0, 0, 0}));
  EXPECT_EQ(Windows(Parsed(With(qwen, {{"use_sliding_window", true}}))), (List{0, 0, 9, 9}));
  const json types = {"sliding_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(Windows(Parsed(With(qwen, {{"use_sliding_window", true}, {"layer_types", types}}))),
            (List{9, 0, 0, 0}));
}

TEST(DecoderConfigTest, ALayerOfSmolLM3DoesWithoutRotaryEmbeddingWhereTheListSaysZero) {
  EXPECT_EQ(Rotary(Parsed(Small("smollm3"))), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(Rotary(Parsed(With(Small("smollm3"), {{"no_rope_layer_interval", 2}}))),
            (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(Rotary(Parsed(With(Small("smollm3"), {{"no_rope_layers", {0, 1, 1, 0}}}))),
            (std::vector<bool>{false, true, true, false}));
}

TEST(DecoderConfigTest, GemmaHasWindowsByPatternAndCapsUnlessTheyAreNull) {
  using List = std::vector<std::int64_t>;
  const DecoderConfig second = Parsed(Small("gemma2"));
  EXPECT_EQ(Windows(second), (List{4096, 0, 4096, 0}));
  EXPECT_EQ(second.attn_logit_softcapping, 50);
  EXPECT_EQ(second.final_logit_softcapping, 30);
  EXPECT_TRUE(second.tie_word_embeddings);
  EXPECT_EQ(
      Parsed(With(Small("gemma2"), {{"attn_logit_softcapping", nullptr}})).attn_logit_softcapping,
      0);
  const DecoderConfig third =
      Parsed(With(Small("gemma3_text"), {{"sliding_window", 9}, {"sliding_window_pattern", 3}}));
  EXPECT_EQ(Windows(third), (List{9, 9, 0, 9}));
  EXPECT_EQ(third.attn_logit_softcapping, 0);
  EXPECT_EQ(third.rope_local_base_freq, 10000);
  EXPECT_EQ(third.rope.theta, 1e6);
  const json by_kind = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 7.0}}}};
  const DecoderConfig newer = Parsed(With(Small("gemma3_text"), {{"rope_parameters", by_kind}}));
  EXPECT_EQ(newer.rope, (Rope{.type = RopeType::kLinear, .theta = 5e5, .factor = 8}));
  EXPECT_EQ(newer.rope_local_base_freq, 7);
  for (const DecoderConfig& config : {second, third, newer}) {
    const json written = DecoderConfigToJson(config);
    EXPECT_TRUE(written["query_pre_attn_scalar"].is_number_integer()) << "others are refused";
    EXPECT_EQ(Parsed(json::parse(written.dump())), config);
  }
  EXPECT_THAT(Errors(With(Small("gemma3_text"), {{"use_bidirectional_attention", true}})),
              StartsWith("config.use_bidirectional_attention: "));
}

TEST(DecoderConfigTest, ReadsBackWhatItWrites) {
  DecoderConfig config = Parsed(Llama());
  config.tie_word_embeddings = true;
  config.initializer_range = 0.1 + 0.2;
  config.head_dim = 64;
  EXPECT_EQ(Parsed(json::parse(DecoderConfigToJson(config).dump())), config);
  const json yarn = {{"rope_type", "yarn"},
                     {"factor", 3.0},
                     {"mscale", 0.7},
                     {"mscale_all_dim", 1.1},
                     {"truncate", false}};
  const json window = {{"use_sliding_window", true}, {"sliding_window", 3}};
  for (const json& value :
       {With(Small("mistral"), {{"num_key_value_heads", 4}, {"rope_scaling", yarn}}),
        With(With(Small("qwen2"), window), {{"max_window_layers", 1}}),
        With(Small("qwen3"), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
        With(With(Small("smollm3"), window), {{"no_rope_layers", {1, 0, 0, 1}}})}) {
    const DecoderConfig read = Parsed(value);
    EXPECT_EQ(Parsed(json::parse(DecoderConfigToJson(read).dump())), read) << value;
  }
}

TEST(DecoderConfigTest, RefusesWhatWouldTrainAnotherModelByItsName) {
  EXPECT_EQ(Refusal("hidden_act", "gelu"),
            "config.hidden_act: is \"gelu\", which is not supported; the only supported value is "
            "\"silu\"");
  EXPECT_THAT(Refusal("architectures", json::array({"MistralForCausalLM"})),
              StartsWith("config.architectures: "));
  EXPECT_THAT(Refusal("attention_bias", true), StartsWith("config.attention_bias: "));
  EXPECT_THAT(Refusal("mlp_bias", true), StartsWith("config.mlp_bias: "));
  EXPECT_THAT(Refusal("attention_dropout", 0.1), StartsWith("config.attention_dropout: "));
  EXPECT_THAT(Refusal("quantization_config", {{"quant_method", "gptq"}}),
              StartsWith("config.quantization_config: "));
  EXPECT_THAT(Refusal("num_local_experts", 8), StartsWith("config.num_local_experts: unknown"));
  EXPECT_THAT(Refusal("partial_rotary_factor", 0.5), StartsWith("config.partial_rotary_factor: "));
  EXPECT_THAT(Refusal("rope_interleaved", true), StartsWith("config.rope_interleaved: "));
  EXPECT_THAT(Refusal("sliding_window", 4096), StartsWith("config.sliding_window: unknown field"));
  EXPECT_EQ(Refusal("vocab_size", nullptr), "config.vocab_size: is missing; it has no default");
}

TEST(DecoderConfigTest, RefusesAnotherFamilyByItsName) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "gemma", "phi3"}) {
    EXPECT_EQ(Errors(With(Llama(), {{"model_type", family}, {"num_experts", 8}})),
              "config.model_type: is \"" + std::string(family) +
                  "\"; one of llama, mistral, qwen2, qwen3, smollm3, gemma2, gemma3_text");
  }
}

TEST(DecoderConfigTest, RefusesARotaryEmbeddingThatItDoesNotKnow) {
  const auto refused = [](const json& scaling) { return Refusal("rope_scaling", scaling); };
  EXPECT_THAT(refused({{"rope_type", "longrope"}, {"factor", 2.0}}),
              HasSubstr("config.rope_scaling.rope_type: is \"longrope\""));
  EXPECT_THAT(refused({{"type", "su"}}), HasSubstr("config.rope_scaling.type: is \"su\""));
  EXPECT_THAT(refused({{"type", "linear"}, {"rope_type", "dynamic"}, {"factor", 2.0}}),
              HasSubstr("config.rope_scaling.type: differs"));
  EXPECT_THAT(refused({{"type", "linear"}}), HasSubstr("config.rope_scaling.factor: is missing"));
  EXPECT_THAT(refused({{"type", "linear"}, {"factor", 0.5}}),
              HasSubstr("config.rope_scaling.factor: is 0.5"));
  EXPECT_THAT(refused({{"type", "default"}, {"mrope_section", {16, 24, 24}}}),
              HasSubstr("config.rope_scaling.mrope_section: unknown field"));
  EXPECT_THAT(refused({{"type", "llama3"}, {"factor", 8.0}}),
              HasSubstr("config.rope_scaling.low_freq_factor: is missing"));
  EXPECT_THAT(refused({{"type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 4.0},
                       {"high_freq_factor", 4.0}}),
              HasSubstr("config.rope_scaling.high_freq_factor: is 4"));
  EXPECT_THAT(Refusal("rope_parameters",
                      {{"full_attention", {{"rope_theta", 1e6}, {"rope_type", "default"}}}}),
              HasSubstr("config.rope_parameters: differ between layers"));
}

TEST(DecoderConfigTest, RefusesListsThatDoNotFitTheLayers) {
  EXPECT_THAT(Errors(With(Small("smollm3"), {{"no_rope_layers", {1, 0}}})),
              StartsWith("config.no_rope_layers: has 2 entries"));
  EXPECT_THAT(Errors(With(Small("qwen3"), {{"layer_types", {"full_attention"}}})),
              StartsWith("config.layer_types: has 1 entries"));
  const json chunked = {"full_attention", "chunked_attention", "full_attention", "full_attention"};
  EXPECT_THAT(Errors(With(Small("qwen2"), {{"layer_types", chunked}})),
              StartsWith("config.layer_types[1]: is chunked_attention"));
  const json sliding = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_THAT(Errors(With(Small("qwen2"), {{"layer_types", sliding}})),
              StartsWith("config.layer_types[1]: is sliding_attention, and there is no window"));
  EXPECT_THAT(Errors(With(Small("mistral"), {{"num_key_value_heads", 4}, {"sliding_window", 0}})),
              StartsWith("config.sliding_window: is 0"));
}

}  // namespace
}  // namespace swarm::api
