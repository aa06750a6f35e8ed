// What the status says for people: conditions, state, counts, progress.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Fills in what the trainer and the pods show. Conditions that the decision has set stay.
void Report(Draft* draft);

/// The job cannot be run: says why, and touches nothing.
Plan Reject(const Observed& observed);

/// Decides whether and when the status is written, from what differs from the one observed: what
/// has been decided at once, counts after some seconds, mere progress once a minute.
void DecideWrite(const Observed& observed, Plan* plan);

}  // namespace swarm::plan
