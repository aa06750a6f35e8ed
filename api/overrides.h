// `--set path=value`: a field of the manifest given on the command line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "api/field_error.h"

namespace swarm::api {

/// Puts `path=value` over `manifest`: spec.training.maxSteps=5, or short training.maxSteps=5. The
/// value is YAML: a scalar or a flow ([0.9, 0.99]); empty means null, hence the default. Mappings
/// on the way are made. Whether the field exists is found out when the manifest is read.
///
/// Appends to `errors` and leaves `manifest` alone: no `=`, an empty part of the path, a value that
/// is not YAML, a way through something that is not a mapping (elements of a list cannot be named).
void ApplyOverride(std::string_view assignment, nlohmann::json* manifest,
                   std::vector<FieldError>* errors);

}  // namespace swarm::api
