#include "api/model/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "api/format/schema_archive.h"

namespace swarm::api {
namespace {

using nlohmann::json;

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

std::string_view ArchitectureOf(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "LlamaForCausalLM";
    case ModelFamily::kMistral:
      return "MistralForCausalLM";
    case ModelFamily::kQwen2:
      return "Qwen2ForCausalLM";
    case ModelFamily::kQwen3:
      return "Qwen3ForCausalLM";
    case ModelFamily::kSmolLM3:
      return "SmolLM3ForCausalLM";
    case ModelFamily::kGemma2:
      return "Gemma2ForCausalLM";
    case ModelFamily::kGemma3:
      return "Gemma3ForCausalLM";
  }
  return "";
}

bool IsGemma(ModelFamily family) {
  return family == ModelFamily::kGemma2 || family == ModelFamily::kGemma3;
}

/// Whether the family's class reads use_sliding_window and layer_types.
bool MixesWindows(ModelFamily family) {
  return family == ModelFamily::kQwen2 || family == ModelFamily::kQwen3 ||
         family == ModelFamily::kSmolLM3;
}

}  // namespace

DecoderConfig DefaultsOf(ModelFamily family) {
  DecoderConfig config{.family = family};
  switch (family) {
    case ModelFamily::kLlama:
      break;
    case ModelFamily::kMistral:
      config.num_key_value_heads = 8;
      config.max_position_embeddings = 131072;
      break;
    case ModelFamily::kQwen2:
      config.num_key_value_heads = 32;
      config.max_position_embeddings = 32768;
      config.attention_input_bias = true;
      break;
    case ModelFamily::kQwen3:
      config.num_key_value_heads = 32;
      config.head_dim = 128;
      config.max_position_embeddings = 32768;
      config.head_norms = true;
      break;
    case ModelFamily::kSmolLM3:
      config.num_key_value_heads = 4;
      config.max_position_embeddings = 32768;
      config.rope.theta = 2e6;
      config.tie_word_embeddings = true;
      break;
    case ModelFamily::kGemma3:
      config.head_norms = true;
      config.max_position_embeddings = 131072;
      config.rope.theta = 1e6;
      config.rope_local_base_freq = 10000;
      break;
    case ModelFamily::kGemma2:
      config.max_position_embeddings = 8192;
      config.attn_logit_softcapping = 50;
      config.final_logit_softcapping = 30;
      break;
  }
  if (IsGemma(family)) {
    config.num_key_value_heads = 4;
    config.head_dim = 256;
    config.query_pre_attn_scalar = 256;
    config.tie_word_embeddings = true;
    config.post_norms = true;
    config.unit_offset_gains = true;
    config.scaled_embedding = true;
    config.activation = Activation::kGeluTanh;
  }
  return config;
}

// The description of the keys that every family has. Not in an unnamed namespace: archives find it
// by the namespace of its argument.
template <typename Archive>
static void Describe(Archive& a, DecoderConfig& config) {
  a.Field("model_type", config.family);
  a.Required("hidden_size", config.hidden_size);
  a.Required("num_hidden_layers", config.num_hidden_layers);
  a.Required("num_attention_heads", config.num_attention_heads);
  a.Dependent("num_key_value_heads", config.num_key_value_heads);
  a.Dependent("head_dim", config.head_dim);
  a.Required("intermediate_size", config.intermediate_size);
  a.Required("vocab_size", config.vocab_size);
  a.Dependent("max_position_embeddings", config.max_position_embeddings);
  a.Field("rms_norm_eps", config.rms_norm_eps);
  a.Dependent("rope_theta", config.rope.theta);
  a.Dependent("tie_word_embeddings", config.tie_word_embeddings);
  a.Field("initializer_range", config.initializer_range);
  a.Only("architectures", json::array({ArchitectureOf(config.family)}));
  if (IsGemma(config.family)) {
    a.Only("hidden_activation", "gelu_pytorch_tanh");
    a.Field("query_pre_attn_scalar", config.query_pre_attn_scalar);
    a.Only("use_bidirectional_attention", false);
    if (config.family == ModelFamily::kGemma3) {
      a.Field("rope_local_base_freq", config.rope_local_base_freq);
    }
    // Not read by the class; an older way to say layer_types; how transformers holds keys.
    a.Ignore({"hidden_act", "cache_implementation"});
  } else {
    a.Only("hidden_act", "silu");
  }
  a.Only("attention_dropout", 0.0);
  const bool has_biases =
      config.family == ModelFamily::kLlama || config.family == ModelFamily::kSmolLM3;
  if (has_biases || config.family == ModelFamily::kQwen3 || IsGemma(config.family)) {
    a.Only("attention_bias", false);
  }
  if (has_biases) a.Only("mlp_bias", false);
  if constexpr (Archive::kReading) {
    a.Only("partial_rotary_factor", 1.0);
    a.Only("rope_interleaved", false);
    a.Only("use_mrope", false);
  }
  // Where a model comes from, and how transformers is to hold and to run it.
  a.Ignore({"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache",
            "_attn_implementation", "_attn_implementation_autoset", "is_llama_config",
            "transformers.js_config"});
  // Ids of a tokenizer. Transformers gives the row of padding no gradient; we have no padding.
  a.Ignore({"bos_token_id", "eos_token_id", "pad_token_id"});
  // A way to compute the same products, which transformers no longer has.
  a.Ignore({"pretraining_tp"});
}

namespace {

/// rope_parameters of transformers 5, or rope_scaling of transformers 4.
struct RopeObject {
  Rope rope;
  std::int64_t positions = 0;  ///< max_position_embeddings
  bool has_theta = false;
};

/// What yarn multiplies cosine and sine by, for a scale in front of the logarithm.
double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

void ReadYarn(ObjectReader& a, Rope& rope, std::int64_t positions) {
  if (!a.Find("factor") && rope.original_max_position_embeddings > 0) {
    rope.factor =
        static_cast<double>(positions) / static_cast<double>(rope.original_max_position_embeddings);
  } else {
    a.Required("factor", rope.factor);
  }
  a.Field("beta_fast", rope.beta_fast);
  a.Field("beta_slow", rope.beta_slow);
  a.Field("truncate", rope.truncate);
  double scale = 0, scale_of_all = 0;
  a.Field("mscale", scale);
  a.Field("mscale_all_dim", scale_of_all);
  rope.attention_factor =
      scale != 0 && scale_of_all != 0
          ? YarnMagnitude(rope.factor, scale) / YarnMagnitude(rope.factor, scale_of_all)
          : YarnMagnitude(rope.factor, 1);
  a.Field("attention_factor", rope.attention_factor);
}

void Describe(ObjectReader& a, RopeObject& object) {
  Rope& rope = object.rope;
  a.Field("type", rope.type);  // as versions before 4.43 write it
  const RopeType older = rope.type;
  a.Field("rope_type", rope.type);
  if (a.Find("type") && a.Find("rope_type") && rope.type != older) {
    a.Report(a.PathOf("type"), "differs from rope_type beside it", "write one of them");
  }
  object.has_theta = a.Find("rope_theta") != nullptr;
  a.Field("rope_theta", rope.theta);
  a.Only("partial_rotary_factor", 1.0);
  a.Field("original_max_position_embeddings", rope.original_max_position_embeddings);
  switch (rope.type) {
    case RopeType::kDefault:
      if (a.Find("factor")) {
        a.Report(a.PathOf("factor"), "has no meaning for the type default", "give a rope_type");
      }
      break;
    case RopeType::kLinear:
    case RopeType::kDynamic:
      a.Required("factor", rope.factor);
      break;
    case RopeType::kYarn:
      ReadYarn(a, rope, object.positions);
      break;
    case RopeType::kLlama3:
      a.Required("factor", rope.factor);
      a.Required("low_freq_factor", rope.low_freq_factor);
      a.Required("high_freq_factor", rope.high_freq_factor);
      break;
  }
  const bool has_origin = rope.type == RopeType::kYarn || rope.type == RopeType::kLlama3;
  if (!has_origin) {
    rope.original_max_position_embeddings = 0;
  } else if (rope.original_max_position_embeddings == 0) {
    rope.original_max_position_embeddings = object.positions;
  }
}

/// rope_parameters of Gemma 3: by kind of layer.
struct RopesOfLayers {
  RopeObject full, sliding;
};

void Describe(ObjectReader& a, RopesOfLayers& ropes) {
  a.Object(kFull, ropes.full);
  a.Object(kSliding, ropes.sliding);
  if (ropes.sliding.rope.type != RopeType::kDefault) {
    a.Report(a.PathOf(std::string(kSliding) + ".rope_type"), "is not supported",
             "default in layers with a window");
  }
}

void ReadRope(ObjectReader& reader, DecoderConfig& config) {
  const json* newer = reader.Find("rope_parameters");
  if (newer != nullptr && newer->contains(kFull)) {
    const std::int64_t positions = config.max_position_embeddings;
    RopesOfLayers ropes{{config.rope, positions},
                        {Rope{.theta = config.rope_local_base_freq}, positions}};
    reader.Object("rope_parameters", ropes);
    config.rope = ropes.full.rope;
    if (config.family == ModelFamily::kGemma3) {
      config.rope_local_base_freq = ropes.sliding.rope.theta;
    } else {
      reader.Report(reader.PathOf("rope_parameters"), "differ between layers",
                    "only gemma3_text can have that");
    }
    return;
  }
  const json* older = reader.Find("rope_scaling");
  const std::string key = newer ? "rope_parameters" : "rope_scaling";
  if (newer && older && *newer != *older) {
    reader.Report(reader.PathOf("rope_scaling"), "differs from rope_parameters beside it",
                  "write one of them");
    return;
  }
  // Some configs say it outside; there transformers 5 prefers it.
  std::int64_t origin = 0;
  reader.Field("original_max_position_embeddings", origin);
  const double theta = config.rope.theta;
  if (newer || older) {
    RopeObject object{config.rope, origin > 0 ? origin : config.max_position_embeddings};
    object.rope.original_max_position_embeddings = 0;
    reader.Object(key, object);
    const std::int64_t found = object.rope.original_max_position_embeddings;
    if (origin > 0 && found > 0 && found != origin) {
      reader.Report(reader.PathOf("original_max_position_embeddings"),
                    "differs from the one in " + key, "write one of them");
    }
    if (reader.Find("rope_theta") && object.has_theta && object.rope.theta != theta) {
      reader.Report(reader.PathOf(key + ".rope_theta"), "differs from rope_theta beside it",
                    "write one of them");
    }
    config.rope = object.rope;
  }
}

/// Reads the keys that say how layers differ.
class LayersReader {
 public:
  LayersReader(ObjectReader& reader, const json& value, DecoderConfig& config)
      : reader_(reader), value_(value), config_(config) {}

  void Read() {
    const bool sized = config_.num_hidden_layers > 0 && config_.num_hidden_layers <= kMost;
    std::vector<LayerOptions> layers(sized ? static_cast<std::size_t>(config_.num_hidden_layers)
                                           : 0);
    if (config_.family == ModelFamily::kSmolLM3) ReadRotary(layers);
    if (config_.family == ModelFamily::kMistral) {
      const std::int64_t window = Window(/*absent=*/4096);
      for (LayerOptions& layer : layers) layer.window = window;
    }
    if (MixesWindows(config_.family)) ReadWindows(layers);
    if (IsGemma(config_.family)) ReadAlternation(layers);
    if (std::ranges::any_of(layers, [](const auto& it) { return it != LayerOptions(); })) {
      config_.layers = std::move(layers);
    }
  }

 private:
  static constexpr std::int64_t kMost = 1 << 16;

  /// The key sliding_window. Null says that there is none, an absent key that it has the default.
  std::int64_t Window(std::int64_t absent) {
    std::int64_t window = value_.contains("sliding_window") ? 0 : absent;
    const bool given = reader_.Find("sliding_window") != nullptr;
    reader_.Field("sliding_window", window);
    if (given && window < 1) {
      reader_.Report(reader_.PathOf("sliding_window"), "is " + std::to_string(window),
                     "at least 1, or null for none");
    }
    return std::max<std::int64_t>(window, 0);
  }

  void ReadRotary(std::vector<LayerOptions>& layers) {
    std::int64_t interval = 4;
    reader_.Field("no_rope_layer_interval", interval);
    std::vector<std::int64_t> rotary;  // in spite of its name, 1 says that a layer has it
    reader_.Field("no_rope_layers", rotary);
    if (reader_.Find("no_rope_layers")) {
      if (rotary.size() < layers.size()) {
        return reader_.Report(reader_.PathOf("no_rope_layers"),
                              "has " + std::to_string(rotary.size()) + " entries",
                              "one for each layer: 1 with rotary embedding, 0 without");
      }
      for (std::size_t i = 0; i < layers.size(); ++i) layers[i].rotary = rotary[i] != 0;
      return;
    }
    if (interval < 1) {
      return reader_.Report(reader_.PathOf("no_rope_layer_interval"),
                            "is " + std::to_string(interval), "at least 1");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i].rotary = (i + 1) % static_cast<std::size_t>(interval) != 0;
    }
  }

  void ReadWindows(std::vector<LayerOptions>& layers) {
    const bool smol = config_.family == ModelFamily::kSmolLM3;
    bool used = false;
    reader_.Field("use_sliding_window", used);
    const std::int64_t given = Window(/*absent=*/smol ? 0 : 4096);
    const std::int64_t window = used ? given : 0;
    std::int64_t first = 28;
    reader_.Field("max_window_layers", first);
    std::vector<std::string> types;
    reader_.Field("layer_types", types);
    if (reader_.Find("layer_types")) return ReadTypes(types, window, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool slides = smol ? !layers[i].rotary : static_cast<std::int64_t>(i) >= first;
      if (slides) layers[i].window = window;
    }
  }

  /// Gemma: of every `pattern` layers the last one sees all tokens.
  void ReadAlternation(std::vector<LayerOptions>& layers) {
    const std::int64_t window = Window(/*absent=*/4096);
    std::int64_t pattern = config_.family == ModelFamily::kGemma2 ? 2 : 6;
    if (config_.family == ModelFamily::kGemma3) {
      reader_.Field("_sliding_window_pattern", pattern);
      reader_.Field("sliding_window_pattern", pattern);
    }
    std::vector<std::string> types;
    reader_.Field("layer_types", types);
    if (reader_.Find("layer_types")) return ReadTypes(types, window, layers);
    if (pattern < 1) {
      return reader_.Report(reader_.PathOf("sliding_window_pattern"),
                            "is " + std::to_string(pattern), "at least 1");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((i + 1) % static_cast<std::size_t>(pattern) != 0) layers[i].window = window;
    }
  }

  void ReadTypes(const std::vector<std::string>& types, std::int64_t window,
                 std::vector<LayerOptions>& layers) {
    const std::string path = reader_.PathOf("layer_types");
    if (types.size() != layers.size()) {
      return reader_.Report(path, "has " + std::to_string(types.size()) + " entries",
                            "one for each layer");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string place = path + "[" + std::to_string(i) + "]";
      if (types[i] == kSliding && window > 0) {
        layers[i].window = window;
      } else if (types[i] == kSliding) {
        reader_.Report(place, "is " + types[i] + ", and there is no window",
                       "give sliding_window and use_sliding_window: true");
      } else if (types[i] != kFull) {
        reader_.Report(place, "is " + types[i],
                       "one of " + std::string(kFull) + ", " + std::string(kSliding));
      }
    }
  }

  ObjectReader& reader_;
  const json& value_;
  DecoderConfig& config_;
};

/// Null says that there is no cap, an absent key that it has the default.
void ReadCaps(ObjectReader& reader, const json& value, DecoderConfig& config) {
  for (const auto& [key, cap] :
       {std::pair{"attn_logit_softcapping", &config.attn_logit_softcapping},
        {"final_logit_softcapping", &config.final_logit_softcapping}}) {
    if (value.contains(key) && value[key].is_null()) *cap = 0;
    reader.Field(key, *cap);
  }
}

json RopeScaling(const Rope& rope) {
  if (rope.type == RopeType::kDefault) return nullptr;
  json object = {{"rope_type", NameOf(rope.type)}, {"factor", rope.factor}};
  if (rope.original_max_position_embeddings > 0) {
    object["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.type == RopeType::kLlama3) {
    object["low_freq_factor"] = rope.low_freq_factor;
    object["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == RopeType::kYarn) {
    object["beta_fast"] = rope.beta_fast;
    object["beta_slow"] = rope.beta_slow;
    object["attention_factor"] = rope.attention_factor;
    object["truncate"] = rope.truncate;
  }
  return object;
}

void WriteLayers(const DecoderConfig& config, json& object) {
  if (config.family == ModelFamily::kLlama) return;
  const auto slides = [](const LayerOptions& layer) { return layer.window > 0; };
  const auto first = std::ranges::find_if(config.layers, slides);
  const bool any = first != config.layers.end();
  object["sliding_window"] = any ? json(first->window) : json(nullptr);
  const bool gemma = IsGemma(config.family);
  if (!MixesWindows(config.family) && !gemma) return;
  if (any || gemma) {
    object["layer_types"] = json::array();
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      object["layer_types"].push_back(slides(LayerOf(config, i)) ? kSliding : kFull);
    }
  }
  if (gemma) return;
  object["use_sliding_window"] = any;
  if (config.family == ModelFamily::kSmolLM3) {
    object["no_rope_layers"] = json::array();
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      object["no_rope_layers"].push_back(LayerOf(config, i).rotary ? 1 : 0);
    }
  } else if (any) {
    object["max_window_layers"] = first - config.layers.begin();  // before there were layer_types
  }
}

}  // namespace

DecoderConfig ParseDecoderConfig(const json& value, const std::string& path,
                                 std::vector<FieldError>* errors) {
  DecoderConfig config;
  ObjectReader reader(value, path, errors);
  if (!reader.is_object()) return config;
  const std::size_t before = errors->size();
  reader.Field("model_type", config.family);
  // The keys of a family that we do not know would be a list of unknown fields.
  if (errors->size() > before) return config;
  config = DefaultsOf(config.family);
  const auto is_null = [&](const char* key) { return value.contains(key) && value[key].is_null(); };
  if (is_null("num_key_value_heads")) config.num_key_value_heads = 0;
  if (is_null("head_dim")) config.head_dim = 0;
  Describe(reader, config);
  if (IsGemma(config.family)) ReadCaps(reader, value, config);
  ReadRope(reader, config);
  LayersReader(reader, value, config).Read();
  reader.Finish();
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  if (config.head_dim == 0 && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  return config;
}

json DecoderConfigToJson(const DecoderConfig& config) {
  ObjectWriter writer;
  DecoderConfig copy = config;
  Describe(writer, copy);
  json object = writer.Take();
  object["rope_scaling"] = RopeScaling(config.rope);
  if (IsGemma(config.family)) {
    const auto or_null = [](double cap) { return cap > 0 ? json(cap) : json(nullptr); };
    object["attn_logit_softcapping"] = or_null(config.attn_logit_softcapping);
    object["final_logit_softcapping"] = or_null(config.final_logit_softcapping);
    // Published ones are whole numbers, and transformers takes no others.
    const auto whole = static_cast<std::int64_t>(config.query_pre_attn_scalar);
    if (static_cast<double>(whole) == config.query_pre_attn_scalar) {
      object["query_pre_attn_scalar"] = whole;
    }
  }
  WriteLayers(config, object);
  return object;
}

json DecoderConfigSchema() {
  ObjectSchema schema(SchemaDefaults::kStated);
  DecoderConfig defaults;
  Describe(schema, defaults);
  return schema.Take();
}

LayerOptions LayerOf(const DecoderConfig& config, std::int64_t layer) {
  return config.layers.empty() ? LayerOptions() : config.layers[static_cast<std::size_t>(layer)];
}

std::uint64_t ParameterCount(const DecoderConfig& config) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const std::uint64_t width = of(config.hidden_size);
  const std::uint64_t queries = of(config.num_attention_heads * config.head_dim);
  const std::uint64_t inputs = queries + 2 * of(config.num_key_value_heads * config.head_dim);
  std::uint64_t layer = width * (inputs + queries + 3 * of(config.intermediate_size)) + 2 * width;
  if (config.attention_input_bias) layer += inputs;
  if (config.head_norms) layer += 2 * of(config.head_dim);
  if (config.post_norms) layer += 2 * width;
  const std::uint64_t tables = config.tie_word_embeddings ? 1 : 2;
  return tables * of(config.vocab_size) * width + of(config.num_hidden_layers) * layer + width;
}

}  // namespace swarm::api
