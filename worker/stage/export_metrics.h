// The metrics of a stage worker.
#pragma once

#include <vector>

#include "base/metrics.h"
#include "worker/stage/worker.h"

namespace swarm::stage {

/// The catalogue's metrics of stage workers, with their current values. Before the worker has a
/// stage: those of its endpoint, and one that says that it has no stage. From any thread.
std::vector<MetricSample> ExportMetrics(const Worker& worker);

}  // namespace swarm::stage
