// The manifest as text and as JSON. The trainer sends a job to its workers as the JSON of ToJson.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// Reads a manifest in YAML (or JSON, which is YAML), puts `overrides` (see overrides.h) over it,
/// fills in the defaults, and judges it by Validate. The errors are all there are at once; only a
/// text that is no YAML and overrides that name nothing end the reading early.
Checked<SwarmJob> ParseYaml(std::string_view text, std::span<const std::string> overrides = {});

/// Reads a manifest from JSON and fills in the defaults. Unknown fields are errors; what the fields
/// mean together is not judged. FromJson(ToJson(job)) is `job` to the last bit of its numbers, if
/// its defaults are filled in.
Checked<SwarmJob> FromJson(const nlohmann::json& value);
Checked<SwarmJob> FromJsonText(std::string_view text);

nlohmann::json ToJson(const SwarmJob& job);
/// A boundary alone, as it stands in a manifest, of a job or of a checkpoint. Who wrote it may not
/// have judged it: what its fields must satisfy, whatever the job, is. Errors have paths below
/// `path`.
Checked<Boundary> BoundaryFromJson(const nlohmann::json& value, const std::string& path);
nlohmann::json BoundaryToJson(const Boundary& boundary);

/// Indented, with a newline at the end. Equal jobs have equal texts.
std::string ToJsonText(const SwarmJob& job);

}  // namespace swarm::api
