// The node of a pod: whether it is still there, and whether it is ready. Pure.
#pragma once

#include <string_view>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// The node that the pod runs on. Null: the pod has none, the operator may not read nodes, the node
/// is not known, or another node has its name now.
const ObservedNode* FindNode(const Observed& observed, const ObservedPod& pod);

/// Whether the pod's node is gone, so that no kubelet can report on the pod any more. Either
/// another node has its name (clouds give a new machine the name of the one it replaces), or the
/// node is not known although the pod was bound some time ago: news of a node may come later than
/// news of a pod on it.
bool HasLostNode(const Observed& observed, const ObservedPod& pod);

/// Whether the node's Ready condition is True. A node without the condition is new: it counts as
/// ready.
bool IsReady(const ObservedNode& node);

/// The node's condition of this type, or null.
const NodeCondition* FindNodeCondition(const ObservedNode& node, std::string_view type);

}  // namespace swarm::plan
