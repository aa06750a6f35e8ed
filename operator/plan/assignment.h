// Which worker serves which stage. The operator balances the stages with the arithmetic of
// worker/protocol/balance/balance.h, from the rates that the trainer measures.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Adds at most one move to the draft, so that its effect is seen before the next one. While a
/// worker is on its way to the job, a move only fills a stage that has no worker.
void DecideAssignment(Draft* draft);

}  // namespace swarm::plan
