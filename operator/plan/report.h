// The part of the status that informs people: conditions, state, counts, progress.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Fills in what the trainer and the pods show. Leaves the conditions that other parts of the
/// decision have set.
void Report(Draft* draft);

/// The plan for a job that cannot be run: says why, and changes no object but the status.
Plan Reject(const Observed& observed);

/// Decides whether and when the status is written, from the fields that differ from the observed
/// ones: decisions at once, counts after some seconds, progress, cost and the words of conditions
/// alone once a minute.
void DecideWrite(const Observed& observed, Plan* plan);

}  // namespace swarm::plan
