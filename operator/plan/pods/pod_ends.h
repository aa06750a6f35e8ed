// The ends of pods: counting, reporting, and how long a successor waits. Each end is counted once,
// in the same status write that decides what follows from it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/plan/draft.h"
#include "operator/plan/pods/pod_health.h"

namespace swarm::plan {

/// Counts the end of a pod, also for its node. A failure is charged to failurePolicy, unless an
/// avoided node is to blame (node_failures.h). The job fails if there are too many failures within
/// the policy's window, or if the failure is fatal.
void CountEnd(PodRole role, const std::string& name, const Judgement& end, Draft* draft);

/// Publishes the ends of several workers: one event for each cause, which names a few of them.
void TellEnds(const std::vector<std::pair<std::string, Judgement>>& ends, Draft* draft);

/// Before this time, no pod of the role is created in the place of another: failures and early ends
/// make the pause longer. None: no pause. `failed` is the time of a failure that is not counted
/// yet.
std::optional<WallTime> HeldBackUntil(const Evidence& evidence, PodRole role,
                                      const api::SwarmJobStatus& status,
                                      std::optional<WallTime> failed = {});

/// When a pod that has ended did so.
WallTime EndTimeOf(const ObservedPod& pod);

/// Until when an ended pod is kept, so that people can read its log. None: it need not be kept.
std::optional<WallTime> KeptUntil(const Evidence& evidence, const ObservedPod& pod);

}  // namespace swarm::plan
