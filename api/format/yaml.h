// Converts YAML text to JSON values. Only yaml.cc includes yaml-cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "api/format/field_error.h"

namespace swarm::api {

/// Reads one YAML document. Plain scalars get their type by the YAML 1.2 core schema (`yes` is a
/// string, `3e-4` a number); quoted ones are strings. Comments are dropped.
///
/// Errors, with line and column as the path if they are known: the text is not UTF-8 or not YAML, a
/// mapping has a key twice or a key that is not a string, there are several documents, a tag is
/// outside the core schema, or a limit is exceeded (1 MiB of text, depth 64, 100,000 values after
/// aliases are expanded).
Checked<nlohmann::json> YamlToJson(std::string_view text);

}  // namespace swarm::api
