// A SwarmJob's status as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/field_error.h"
#include "api/status.h"

namespace swarm::api {

/// Reads `status` of an object; null is a new job's. Fields of a later version are passed over.
/// Errors: a field of another type than it should have, at "status.FIELD"; nothing is thrown.
Checked<SwarmJobStatus> StatusFromJson(const nlohmann::json& value);

/// Empty texts and absent times are left out; all numbers are there. What StatusFromJson read is
/// written as it was, to the second.
nlohmann::json StatusToJson(const SwarmJobStatus& status);

}  // namespace swarm::api
