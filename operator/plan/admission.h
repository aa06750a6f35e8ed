// Whether a job may have pods now: a user may suspend it, its budget may be spent, and a queue of
// Kueue must admit it.
//
// Kueue gives quota to a Workload, an object that the operator keeps for each job with a queue: it
// asks for the trainer and for the worker pods of each pool. The job has pods while its Workload is
// admitted. When it is evicted, the job stops as if it were suspended; once no pod is left, the
// operator gives the quota back. The Workload's pods cannot change while it has quota, so a job
// never has more pods than were admitted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Why the job has no pods now; none: it shall have them. Requires: JudgeBudget. Sees to its
/// Workload, and sets the condition Admitted.
std::optional<Hold> DecideHold(Draft* draft);

/// Of a job that MultiKueue runs in another cluster: sees to its Workload and does nothing else.
/// Its status is that of the other cluster, which MultiKueue copies here.
void DecideElsewhere(Draft* draft);

/// Tells the queue that the job trains, or that it has finished. Needs the draft's conditions.
void ReportToQueue(Draft* draft);

/// The worker pods by pool that a job asks its queue for. Pools without any are left out, and those
/// in other clusters, of whose machines the queue knows nothing.
std::map<std::string, std::uint64_t> AskedPods(
    const api::Spec& spec, const std::map<std::string, std::uint64_t>& pod_sizes);

/// The worker pods by pool of its own cluster that the job may have; none: it has no queue, or the
/// operator cannot see what it admitted.
std::optional<std::map<std::string, std::uint64_t>> AdmittedPods(const Observed& observed);

}  // namespace swarm::plan
