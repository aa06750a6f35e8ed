// Hugging Face's config.json of a decoder: in a manifest, in the folder of a model, in an export.
//
// Every family is the same decoder with other values: pre-normed layers of attention with rotary
// embedding and of a gated MLP with silu. Numbers are those of the family's class in transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// Reads a config.json as transformers reads it: an absent key has the default of the family's
/// class, rope_parameters (version 5) counts as much as rope_theta and rope_scaling (version 4).
/// Keys that do not change what is computed (torch_dtype, token ids, ...) are ignored. Keys with
/// one supported value (hidden_act: silu, ...) must have this value. Any other key is an error.
///
/// Appends to `errors`, with paths that begin with `path`. The result is valid only if there were
/// no errors. ValidateDecoderConfig (validate.h) checks rules between fields.
DecoderConfig ParseDecoderConfig(const nlohmann::json& value, const std::string& path,
                                 std::vector<FieldError>* errors);

/// A config.json with the keys of the family. ParseDecoderConfig gives the same config again;
/// transformers 4 and 5 can load it.
nlohmann::json DecoderConfigToJson(const DecoderConfig& config);

/// Its part of SpecSchema (schema.h).
nlohmann::json DecoderConfigSchema();

/// What transformers takes for keys that a config.json does not have, and what the family switches
/// on.
DecoderConfig DefaultsOf(ModelFamily family);

/// The options of one layer.
LayerOptions LayerOf(const DecoderConfig& config, std::int64_t layer);

/// The number of trained parameters of the plain model; a tied head counts once.
std::uint64_t ParameterCount(const DecoderConfig& config);

}  // namespace swarm::api
