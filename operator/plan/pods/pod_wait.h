// What a pod that has not started waits for. Pure.
#pragma once

#include <string>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// Whether the scheduler has looked for a node for the pod and found none.
bool IsUnschedulable(const ObservedPod& pod);

/// Whether the pod cannot start because its image cannot be pulled.
bool WaitsForImage(const ObservedPod& pod);

/// Why the pod has not started, in the words of the scheduler or of its kubelet:
/// "Unschedulable: 0/3 nodes are available: ...". Empty: they have not said it.
std::string WordsOfWait(const ObservedPod& pod);

/// Of the workers' pods that have not started, the one with the lowest ordinal of those whose wait
/// the cluster explains; null: there is none. `unbound`: of those without a node.
const ObservedPod* FirstThatWaits(const Observed& observed, bool unbound);

}  // namespace swarm::plan
