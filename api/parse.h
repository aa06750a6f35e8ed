// Reads and writes the manifest as text and as JSON. The trainer sends the JSON to its workers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/format/defaults.h"
#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

class ObjectReader;  // format/archive.h

/// Reads a manifest in YAML (or JSON, which is YAML), applies `overrides` (overrides.h), fills in
/// the defaults, and checks it with Validate. Returns all errors at once, except that malformed
/// YAML and malformed overrides end the reading early.
Checked<SwarmJob> ParseYaml(std::string_view text, std::span<const std::string> overrides = {});

/// Reads a manifest from JSON and fills in the defaults. Unknown fields are errors. Does not check
/// the rules of Validate. FromJson(ToJson(job)) equals `job`, bit for bit, if its defaults are
/// filled in.
Checked<SwarmJob> FromJson(const nlohmann::json& value);
Checked<SwarmJob> FromJsonText(std::string_view text);

/// Reads the fields of a machine, of an object that may have others.
void ReadMachine(ObjectReader& reader, Machine* machine);

/// The tokenizer of a manifest that gives this uri and no kind.
Tokenizer TokenizerAt(const std::string& uri);

/// FromJson refuses fields that it does not know. With kLeftOut the FromJson of an earlier version
/// reads the job, too, where the fields that it lacks have their defaults.
nlohmann::json ToJson(const SwarmJob& job, Defaults defaults = Defaults::kWritten);
/// Reads a boundary alone, in the form that manifests of jobs and of checkpoints have. Checks the
/// rules for its fields in any job. The paths of the errors begin with `path`.
Checked<Boundary> BoundaryFromJson(const nlohmann::json& value, const std::string& path);
nlohmann::json BoundaryToJson(const Boundary& boundary);
/// The same of adapters.
Checked<Lora> LoraFromJson(const nlohmann::json& value, const std::string& path);
nlohmann::json LoraToJson(const Lora& lora);

/// Indented, with a newline at the end. Equal jobs have equal texts.
std::string ToJsonText(const SwarmJob& job, Defaults defaults = Defaults::kWritten);

}  // namespace swarm::api
