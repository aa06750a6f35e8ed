// The workers of a job: ends counted, the lost replaced, the wanted number kept, each in its pool.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

void DecideWorkers(Draft* draft);

/// Whether accelerators were released because some stages could not be staffed for long: then only
/// a probe waits for capacity.
bool IsReleased(const api::SwarmJobStatus& status);

}  // namespace swarm::plan
