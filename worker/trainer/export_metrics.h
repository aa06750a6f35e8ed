// The metrics of a trainer.
#pragma once

#include <vector>

#include "base/metrics.h"
#include "worker/trainer/trainer.h"

namespace swarm::trainer {

/// What the catalogue has of the trainer, as it is now. A trainer that is too busy to describe its
/// stages and what has happened to workers within a second leaves those out. From any thread but
/// the trainer's own.
std::vector<MetricSample> ExportMetrics(Trainer& trainer);

}  // namespace swarm::trainer
