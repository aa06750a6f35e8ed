// The workers whose pods or machines are gone, whose certificates count no more therefore. Pure.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// The numbers that the job has reserved for workers, and that are neither open, nor those of a pod
/// that may still run, in whichever cluster, nor those of a machine that may take part. A number is
/// used once and a closed one stays closed, so one that is here never comes back, also if what is
/// seen is old.
protocol::Retired GoneWorkers(const ObservedJob& job, const std::vector<ObservedPod>& pods);

/// Tells the trainer of those that it does not know.
void RetireWorkers(Draft* draft);

}  // namespace swarm::plan
