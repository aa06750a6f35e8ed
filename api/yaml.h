// The room of yaml-cpp: YAML text to JSON values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "api/field_error.h"

namespace swarm::api {

/// Reads one YAML document. Plain scalars get their type by the YAML 1.2 core schema (`yes` is a
/// string, `3e-4` a number); quoted ones are strings. Comments are dropped.
///
/// Errors, with the line and column as path where there is one: not UTF-8, not YAML, a key twice in
/// one mapping, a key that is not a string, several documents, a tag outside the core schema, and
/// what passes the limits: 1 MiB of text, depth 64, 100,000 values after aliases are expanded.
Checked<nlohmann::json> YamlToJson(std::string_view text);

}  // namespace swarm::api
