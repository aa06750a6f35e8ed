// `--set path=value`: sets a field of the manifest from the command line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "api/format/field_error.h"

namespace swarm::api {

/// Sets `path=value` in `manifest`, for example spec.training.maxSteps=5 or, in short,
/// training.maxSteps=5. The value is YAML: a scalar or a flow ([0.9, 0.99]). An empty value is
/// null, which means the default. Missing mappings on the path are created. Reading the manifest
/// later shows whether the field exists.
///
/// Appends to `errors` and leaves `manifest` unchanged if there is no `=`, a part of the path is
/// empty, the value is not YAML, or the path goes through a value that is not a mapping (it cannot
/// name the elements of a list).
void ApplyOverride(std::string_view assignment, nlohmann::json* manifest,
                   std::vector<FieldError>* errors);

}  // namespace swarm::api
