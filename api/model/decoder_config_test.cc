#include "api/model/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::api {
namespace {

using nlohmann::json;

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

DecoderConfig Parsed(const json& value) {
  std::vector<FieldError> errors;
  const DecoderConfig config = ParseDecoderConfig(value, "config", &errors);
  EXPECT_EQ(ToString(errors), "");
  return config;
}

std::string Refusal(json value, const char* key, json wrong) {
  value[key] = std::move(wrong);
  std::vector<FieldError> errors;
  (void)ParseDecoderConfig(value, "config", &errors);
  return ToString(errors);
}

TEST(DecoderConfigTest, ReadsWhatTransformersWrites) {
  const DecoderConfig config = Parsed(json::parse(kTransformers4));
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000.0);
}

TEST(DecoderConfigTest, ReadsTheRotaryParametersOfTransformers5) {
  json value = json::parse(kTransformers4);
  value.erase("rope_theta");
  value.erase("rope_scaling");
  value["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(Parsed(value).rope_theta, 1e6);
  EXPECT_EQ(
      Refusal(value, "rope_theta", 1e4),
      "config.rope_parameters.rope_theta: differs from rope_theta beside it; write one of them");
  EXPECT_THAT(Refusal(value, "rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e6}}),
              testing::StartsWith("config.rope_parameters.rope_type: is \"yarn\""));
}

TEST(DecoderConfigTest, ReadsBackWhatItWrites) {
  DecoderConfig config = Parsed(json::parse(kTransformers4));
  config.tie_word_embeddings = true;
  config.initializer_range = 0.1 + 0.2;
  config.head_dim = 64;
  EXPECT_EQ(Parsed(json::parse(DecoderConfigToJson(config).dump())), config);
}

TEST(DecoderConfigTest, RefusesWhatWouldTrainAnotherModel) {
  const json good = json::parse(kTransformers4);
  EXPECT_EQ(Refusal(good, "hidden_act", "gelu"),
            "config.hidden_act: is \"gelu\", which is not supported; the only supported value is "
            "\"silu\"");
  EXPECT_NE(Refusal(good, "architectures", json::array({"MistralForCausalLM"})), "");
  EXPECT_NE(Refusal(good, "attention_bias", true), "");
  EXPECT_NE(Refusal(good, "rope_scaling", {{"type", "linear"}}), "");
  EXPECT_NE(Refusal(good, "pretraining_tp", 2), "");
  EXPECT_EQ(Refusal(good, "sliding_window", 4096).find("config.sliding_window: unknown field"), 0u);
  EXPECT_EQ(Refusal(good, "vocab_size", nullptr),
            "config.vocab_size: is missing; it has no default");
}

}  // namespace
}  // namespace swarm::api
