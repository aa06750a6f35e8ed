// Kubernetes' objects, as the API server sends them, in the operator's own structs. What they hold
// is anybody's making: whatever it is, these functions answer and throw nothing. A field of the
// wrong type counts as absent.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/status.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::objects {

/// A SwarmJob with all its defaults. A manifest that cannot be run has `errors`.
///
/// Errors: kInvalidArgument, it has no name, namespace or UID; kDataLoss, its status is not one
/// that we wrote: acting without it would give out names twice, so somebody has to look at it
/// first.
Result<JobView> ReadJob(const nlohmann::json& object);

/// A pod of a SwarmJob; none: its labels do not make it one, or it has no name or UID. Whether it
/// belongs to this SwarmJob its owner's UID tells. `waiting_since` is the creation, and `node_uid`
/// empty: who remembers more puts it in.
std::optional<plan::ObservedPod> ReadPod(const nlohmann::json& object);

/// Its name is the key under which it is known; a node without UID has an empty one.
plan::ObservedNode ReadNode(const nlohmann::json& object);

}  // namespace swarm::objects
