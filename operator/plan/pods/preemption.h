// Whether the infrastructure takes a pod away: the one room for notices of preemption and drain, on
// pods and on nodes. Pure.
#pragma once

#include <string>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// A node's notice that it is going away, in words; empty: none. Notices are the taints of
/// termination handlers and autoscalers, conditions that clouds set, and the kubelet's own message
/// that it shuts down.
std::string NoticeOf(const ObservedNode& node);

/// The evidence, in words, that the infrastructure or another API client takes the pod away or has
/// done so; empty: none. It comes from the pod's own record and from its node: a notice, or the
/// fact that the node is gone.
std::string PreemptionOf(const Observed& observed, const ObservedPod& pod);

}  // namespace swarm::plan
