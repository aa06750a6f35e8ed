// The operator's decision about one job. Pure and deterministic: the same input, time included,
// gives the same plan.
#pragma once

#include "operator/plan/observed.h"
#include "operator/plan/plan.h"

namespace swarm::plan {

/// What the operator must do for the job now.
///
/// A decision about the outcome of an earlier plan is empty, and so is one where nothing has
/// changed but the trainer's progress within the last minute. If two operators overlap, the status
/// write of one of them fails, so only one of them reserves a number.
Plan Decide(const Observed& observed);

}  // namespace swarm::plan
