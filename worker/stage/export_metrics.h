// The metrics of a stage worker.
#pragma once

#include <vector>

#include "base/metrics.h"
#include "worker/stage/worker.h"

namespace swarm::stage {

/// What the catalogue has of stage workers, as it is now. Before the worker has a stage: what its
/// endpoint did, and that it has none. From any thread.
std::vector<MetricSample> ExportMetrics(const Worker& worker);

}  // namespace swarm::stage
