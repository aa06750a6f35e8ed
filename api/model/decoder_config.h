// Hugging Face's config.json of a Llama model: in a manifest, in the folder of a model, in an
// export.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// Reads a config.json. Known keys that do not affect training (torch_dtype, token ids, ...) are
/// ignored. Keys with one supported value (hidden_act: silu, ...) must have this value. Any other
/// key is an error. num_key_value_heads and head_dim are filled in.
///
/// Appends to `errors`, with paths that begin with `path`. The result is valid only if there were
/// no errors. ValidateDecoderConfig (validate.h) checks rules between fields.
DecoderConfig ParseDecoderConfig(const nlohmann::json& value, const std::string& path,
                                 std::vector<FieldError>* errors);

/// A config.json with every key that ParseDecoderConfig reads. Transformers 4 and 5 can load it.
nlohmann::json DecoderConfigToJson(const DecoderConfig& config);

/// Its part of SpecSchema (schema.h).
nlohmann::json DecoderConfigSchema();

}  // namespace swarm::api
