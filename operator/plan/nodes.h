// What a node's record says about the pods on it. Pure.
#pragma once

#include <cstdint>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// A node that a pod has just been bound to may reach us later than the pod does; one that is not
/// known this long after it is gone.
inline constexpr std::int64_t kSettledNodeSeconds = 10;

/// Whether its Ready condition is True. A node without one has just been made: as good as ready.
bool IsReady(const ObservedNode& node);

/// Whether the pod was bound to an earlier node of this name: clouds give a new machine the name of
/// the one it replaces.
bool IsAnotherNode(const ObservedNode& node, const ObservedPod& pod);

}  // namespace swarm::plan
