// Puts one partial Kubernetes object over another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace swarm::objects {

/// Puts `over` on `under`: mappings field by field, other values in the place of what is there, a
/// null not at all. Items of containers, initContainers and ports are merged with the item of the
/// same name, items of env, volumes, imagePullSecrets (by name), envFrom (by secretRef) and
/// volumeMounts (by mountPath) take its place; items with a new key are appended. Any other list
/// takes the place of the list.
///
/// Errors: kInvalidArgument, a mapping or a list meets something else; the message begins with
/// `path` and the field, and `under` is then half merged.
Status Merge(const nlohmann::json& over, const std::string& path, nlohmann::json* under);

}  // namespace swarm::objects
