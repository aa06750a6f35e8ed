// Merges one partial Kubernetes object over another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace swarm::objects {

/// Merges `over` into `under`. Mappings are merged field by field. Other values replace the value
/// in `under`; a null is ignored. In lists of containers, initContainers and ports, items with the
/// same name are merged. In lists of env, volumes, imagePullSecrets, resourceClaims, claims (by
/// name), envFrom (by secretRef) and volumeMounts (by mountPath), an item replaces the one with the
/// same key. Items with a new key are appended. Any other list replaces the whole list.
///
/// Errors: kInvalidArgument, a mapping or a list meets a value of another type. The message begins
/// with `path` and the field. `under` is then partly merged.
Status Merge(const nlohmann::json& over, const std::string& path, nlohmann::json* under);

}  // namespace swarm::objects
