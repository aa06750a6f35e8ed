// Hugging Face's config.json of a Llama, in a manifest, in a model's folder, in an export.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// Reads a config.json. Keys that change nothing for training (torch_dtype, token ids, ...) are
/// ignored by name; keys of which one value is supported (hidden_act: silu, ...) must have it; any
/// other key is refused. num_key_value_heads and head_dim are filled in.
///
/// Appends to `errors`, with paths that begin with `path`; the result is meaningful if it appended
/// none. Cross-field rules are ValidateLlamaConfig's (validate.h).
LlamaConfig ParseLlamaConfig(const nlohmann::json& value, const std::string& path,
                             std::vector<FieldError>* errors);

/// A config.json with every key that ParseLlamaConfig understands; Transformers 4 and 5 read it.
nlohmann::json LlamaConfigToJson(const LlamaConfig& config);

/// The part of SpecSchema (schema.h) about it.
nlohmann::json LlamaConfigSchema();

}  // namespace swarm::api
