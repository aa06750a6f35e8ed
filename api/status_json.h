// Reads and writes the status of a SwarmJob as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/format/field_error.h"
#include "api/status.h"

namespace swarm::api {

/// Reads the member `status` of an object. Null gives the status of a new job. Unknown fields,
/// which a later version may have written, are ignored. Errors: a field has the wrong type, at
/// "status.FIELD". Does not throw.
Checked<SwarmJobStatus> StatusFromJson(const nlohmann::json& value);

/// Leaves out empty texts and absent times, and writes all numbers. A status that StatusFromJson
/// read is written unchanged, except that times are cut to seconds.
nlohmann::json StatusToJson(const SwarmJobStatus& status);

}  // namespace swarm::api
