// Which worker serves which stage: the balance of the stages (worker/protocol/balance/balance.h),
// decided from what the trainer measures.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// At most one move at a time, in the draft's actions: what it changes is seen before the next.
/// While somebody is on the way to the job, only a stage that has nobody gets one.
void DecideAssignment(Draft* draft);

}  // namespace swarm::plan
