#include "operator/plan/money/budget.h"

#include <cmath>

#include "api/format/enum_names.h"
#include "api/prices.h"
#include "base/dollars.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using api::Reason;

/// The part of a budget that is spent when its user is warned.
constexpr double kLow = 0.9;

/// Asks for a decision when this much will be spent.
void LookAgainAt(double dollars, Draft* draft) {
  constexpr double kSecondsMax = 1e6;
  const api::CostStatus& cost = draft->plan.status.cost;
  const double left = (dollars - cost.dollars) / api::DollarsPerHour(cost) * api::kSecondsPerHour;
  if (!(left < kSecondsMax)) return;
  draft->LookAgain(draft->now() + std::chrono::seconds(std::llround(std::ceil(left))));
}

}  // namespace

void JudgeBudget(Draft* draft) {
  const std::optional<api::Budget>& budget = draft->job.spec.budget;
  if (!budget) {
    return draft->Set(ConditionType::kBudgetSpent, ConditionStatus::kFalse, Reason::kBudgetLeft,
                      "the job has no budget");
  }
  const double spent = draft->status().cost.dollars;
  const Reason reason = spent >= budget->dollars          ? Reason::kBudgetSpent
                        : spent >= kLow * budget->dollars ? Reason::kBudgetLow
                                                          : Reason::kBudgetLeft;
  const api::Condition* before = api::FindCondition(draft->status(), ConditionType::kBudgetSpent);
  const bool is_new = before == nullptr || before->reason != NameOf(reason);
  std::string words =
      DollarText(spent) + " of the budget of " + DollarText(budget->dollars) + " are spent";
  if (reason == Reason::kBudgetLow) words += "; when all is, the operator suspends the job";
  if (reason == Reason::kBudgetSpent) {
    words += ", so the operator suspends the job; raise spec.budget.dollars to continue";
  }
  if (is_new && reason != Reason::kBudgetLeft) draft->Warn(reason, words);
  draft->Set(ConditionType::kBudgetSpent,
             reason == Reason::kBudgetSpent ? ConditionStatus::kTrue : ConditionStatus::kFalse,
             reason, std::move(words));
  if (reason == Reason::kBudgetLeft) LookAgainAt(kLow * budget->dollars, draft);
  if (reason == Reason::kBudgetLow) LookAgainAt(budget->dollars, draft);
}

std::string WhySuspended(const Draft& draft) {
  if (draft.job.spec.suspend) return "spec.suspend is true";
  return api::IsTrue(draft.plan.status, ConditionType::kBudgetSpent) ? "spec.budget is spent" : "";
}

}  // namespace swarm::plan
