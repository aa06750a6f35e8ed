// What follows from spec.budget. Pure.
#pragma once

#include <string>

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Judges what is spent (status.cost) by the budget, and sets the condition BudgetSpent. Warns once
/// when nine tenths are spent, and once when all is. A job without a budget always has some left.
///
/// The budget alone decides, and keeps no memory of having suspended the job: a higher budget lets
/// it run again, unless its user has suspended it, too.
void JudgeBudget(Draft* draft);

/// Why the job shall have no pods now, in words. Empty: it shall run. Requires: JudgeBudget.
///
/// The trainer then writes a checkpoint before the workers go. What they cost meanwhile exceeds the
/// budget.
std::string WhySuspended(const Draft& draft);

}  // namespace swarm::plan
