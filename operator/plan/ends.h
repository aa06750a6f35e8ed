// Ends of pods, counted once each: in the write that also decides what follows from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/plan/draft.h"
#include "operator/plan/evidence.h"

namespace swarm::plan {

/// Counts the end of a pod. A failure is charged to failurePolicy, and one too many within its
/// window, or one that trying again cannot mend, fails the job.
void CountEnd(PodRole role, const std::string& name, const Judgement& end, Draft* draft);

/// Events for the ends of several workers: one for each cause, that names a few of them.
void TellEnds(const std::vector<std::pair<std::string, Judgement>>& ends, Draft* draft);

/// Before this, no pod of the role is created in the place of another: failures and quick ends
/// follow each other less and less quickly. None: at once. `failed` is the time of a failure that
/// is not counted yet.
std::optional<WallTime> HeldBackUntil(const Observed& observed, PodRole role,
                                      const api::SwarmJobStatus& status,
                                      std::optional<WallTime> failed = {});

/// When a pod that has ended did so.
WallTime EndTimeOf(const ObservedPod& pod);

/// When an ended pod that tells why it ended is removed; none: it need not be kept.
std::optional<WallTime> KeptUntil(const Observed& observed, const ObservedPod& pod);

}  // namespace swarm::plan
