// A manifest in the two steps of ParseYaml (parse.h), for those who need what the user wrote beside
// what it means. Defined in parse.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// The values of a manifest in YAML (or JSON, which is YAML), with `overrides` (overrides.h) and
/// without defaults. Errors: malformed YAML, or all malformed overrides.
Checked<nlohmann::json> ReadYaml(std::string_view text,
                                 std::span<const std::string> overrides = {});

/// Whether the stages of such values are Auto. They are then as if left out.
bool TakeAutoStages(nlohmann::json* manifest);

/// The job that the values describe: fills in the defaults, and checks it with Validate. Returns
/// all errors at once.
Checked<SwarmJob> ParseManifest(const nlohmann::json& value);

}  // namespace swarm::api
