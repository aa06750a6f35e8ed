// Reads Kubernetes' objects, as the API server sends them, into the operator's structs. The objects
// are untrusted: these functions never throw, and a field of the wrong type counts as absent.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/status.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::objects {

/// A SwarmJob with all its defaults, and with the choice that its status has for `stages: Auto`.
/// The choice counts for the generation that it was made for, and for all that follow once a
/// trainer's term is reserved. A manifest that cannot be run has `errors`.
///
/// Errors: kInvalidArgument, the object has no name, namespace or UID; kDataLoss, the operator
/// cannot have written the status. Acting without the status would use names twice, so a person
/// must correct it first.
Result<JobView> ReadJob(const nlohmann::json& object);

/// Makes the view one of the job with this choice. `object` is what `view` was read from, without
/// errors.
void TakeChoice(const nlohmann::json& object, const api::PlanChoice& choice, JobView* view);

/// A pod of a SwarmJob. None: its labels are not those of one, or it has no name or UID. The caller
/// checks the owner, and fills in what it remembers: here, `waiting_since` is the creation, and
/// `node_uid` is empty.
std::optional<plan::ObservedPod> ReadPod(const nlohmann::json& object);

/// Whether a pod mounts the Secret that pods of earlier operators share.
bool SharesIdentities(const nlohmann::json& pod);

/// A node. Its name is not part of the result.
plan::ObservedNode ReadNode(const nlohmann::json& object);

}  // namespace swarm::objects
