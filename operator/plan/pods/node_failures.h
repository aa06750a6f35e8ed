// The failures of a job's pods by node, and the nodes that its new pods avoid. Pure.
#pragma once

#include <string>

#include "operator/plan/draft.h"
#include "operator/plan/pods/pod_health.h"

namespace swarm::plan {

/// Whether new pods of the job avoid the node.
bool IsAvoided(const api::SwarmJobStatus& status, const std::string& node);

/// Counts the end for its node, if the node may be to blame. A node is avoided from its third
/// failure on, or from the first if no container can start there: new pods prefer other nodes.
/// An event tells it.
void CountForNode(const std::string& pod, const Judgement& end, Draft* draft);

/// Whether a node that is avoided already is to blame, while pods of the role work elsewhere. Such
/// an end is not charged to failurePolicy. Ask before the end is counted for its node.
bool IsFaultOfAvoidedNode(PodRole role, const Judgement& end, const Draft& draft);

/// Forgets nodes an hour after their last failure, so that pods try them again.
void ForgetNodes(Draft* draft);

}  // namespace swarm::plan
