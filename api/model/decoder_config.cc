#include "api/model/decoder_config.h"

#include "api/format/schema_archive.h"

namespace swarm::api {

template <typename Archive>
static void Describe(Archive& a, DecoderConfig& config) {
  a.Required("hidden_size", config.hidden_size);
  a.Required("num_hidden_layers", config.num_hidden_layers);
  a.Required("num_attention_heads", config.num_attention_heads);
  a.Field("num_key_value_heads", config.num_key_value_heads);
  a.Field("head_dim", config.head_dim);
  a.Required("intermediate_size", config.intermediate_size);
  a.Required("vocab_size", config.vocab_size);
  a.Field("max_position_embeddings", config.max_position_embeddings);
  a.Field("rms_norm_eps", config.rms_norm_eps);
  a.Field("rope_theta", config.rope_theta);
  a.Field("tie_word_embeddings", config.tie_word_embeddings);
  a.Field("initializer_range", config.initializer_range);
  a.Only("architectures", nlohmann::json::array({"LlamaForCausalLM"}));
  a.Only("model_type", "llama");
  a.Only("hidden_act", "silu");
  a.Only("attention_bias", false);
  a.Only("mlp_bias", false);
  a.Only("attention_dropout", 0.0);
  a.Only("pretraining_tp", 1);
  a.Ignore({"torch_dtype", "dtype", "use_cache", "transformers_version", "bos_token_id",
            "eos_token_id", "pad_token_id", "_name_or_path"});
}

namespace {

// What Transformers 5 writes instead of rope_theta and rope_scaling.
struct RopeParameters {
  double rope_theta = 0;
};

void Describe(ObjectReader& a, RopeParameters& rope) {
  a.Only("rope_type", "default");
  a.Required("rope_theta", rope.rope_theta);
}

void ReadRope(ObjectReader& reader, DecoderConfig& config) {
  if (reader.Find("rope_scaling")) {
    reader.Report(reader.PathOf("rope_scaling"), "is not supported",
                  "the only supported value is null");
  }
  if (!reader.Find("rope_parameters")) return;
  RopeParameters rope{config.rope_theta};
  reader.Object("rope_parameters", rope);
  if (reader.Find("rope_theta") && rope.rope_theta != config.rope_theta) {
    reader.Report(reader.PathOf("rope_parameters.rope_theta"), "differs from rope_theta beside it",
                  "write one of them");
  }
  config.rope_theta = rope.rope_theta;
}

}  // namespace

DecoderConfig ParseDecoderConfig(const nlohmann::json& value, const std::string& path,
                                 std::vector<FieldError>* errors) {
  DecoderConfig config;
  ObjectReader reader(value, path, errors);
  if (!reader.is_object()) return config;
  Describe(reader, config);
  ReadRope(reader, config);
  reader.Finish();
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  if (config.head_dim == 0 && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  return config;
}

nlohmann::json DecoderConfigToJson(const DecoderConfig& config) {
  ObjectWriter writer;
  DecoderConfig copy = config;
  Describe(writer, copy);
  return writer.Take();
}

nlohmann::json DecoderConfigSchema() {
  ObjectSchema schema(SchemaDefaults::kStated);
  DecoderConfig defaults;
  Describe(schema, defaults);
  return schema.Take();
}

}  // namespace swarm::api
