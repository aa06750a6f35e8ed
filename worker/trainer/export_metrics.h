// The metrics of a trainer.
#pragma once

#include <vector>

#include "base/metrics.h"
#include "worker/trainer/trainer.h"

namespace swarm::trainer {

/// The catalogue's metrics of the trainer, with their current values. A trainer that is too busy to
/// describe its stages and the events of its workers within a second leaves those out. From any
/// thread but the trainer's own.
std::vector<MetricSample> ExportMetrics(Trainer& trainer);

}  // namespace swarm::trainer
