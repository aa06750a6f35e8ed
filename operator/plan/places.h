// In which clusters the open workers of a job are. The status says so, since an operator that
// begins while a cluster is away cannot ask there. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/plan/draft.h"

namespace swarm::plan {

/// The cluster of an open worker's pod, the job's own as "". None: not known, since an earlier
/// version of the operator wrote the status.
std::optional<std::string> PlaceOf(const api::SwarmJobStatus& status, std::uint64_t ordinal);

/// Adds the pods that the status names in clusters that are away, and that `observed` lacks. Their
/// tenures and reservations must be known before: nothing is known of their machines.
void AddUnseenPods(Observed* observed);

/// Writes to each of `status.clusters` which open workers are there.
void RecordPlaces(Draft* draft);

}  // namespace swarm::plan
