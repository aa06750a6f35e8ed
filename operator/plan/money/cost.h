// What a job costs: its workers by the prices of their pools, and what they exchange between
// regions by those of spec.workers.traffic (traffic.h). Pure.
//
// A worker costs machine.dollarsPerHour of its pool while its pod holds a machine, and a machine
// that has joined dollarsPerHour of its pool while it takes part (tenures.h). The trainer has no
// pool, so it has no price.
//
// Each count covers the time from the count before, whose end the status names, to now. So no
// moment counts twice, whoever counts, and the sum never falls. A count holds once its status is
// written. If an operator ends before that, the next one counts the same time for the pods that are
// left. So the sum lacks at most what pods that went meanwhile cost since the last write. A changed
// price holds from the count before.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Brings status.cost and status.traffic to now.
void CountCost(Draft* draft);

/// Fills in what a step and tokens cost at the rate of status.progress.
void ReportPrices(Draft* draft);

}  // namespace swarm::plan
