#include "operator/plan/money/cost.h"

#include <algorithm>
#include <chrono>

#include "api/prices.h"
#include "base/dollars.h"
#include "operator/plan/money/traffic.h"
#include "operator/plan/rounded.h"

namespace swarm::plan {
namespace {

using api::kSecondsPerHour;

/// A count at least so often bounds what the loss of an operator hides.
constexpr std::chrono::seconds kCountPeriod{60};

}  // namespace

void CountCost(Draft* draft) {
  api::CostStatus& cost = draft->status().cost;
  const WallTime since = cost.countedTime.value_or(WallTime::min());
  double added = 0, per_hour = 0;
  for (const Tenure& tenure : draft->seen.tenures) {
    const double price =
        api::WorkerPrice(draft->job.spec, tenure.pool) * static_cast<double>(tenure.workers);
    const WallTime from = std::max(tenure.from, since);
    const WallTime until = std::min(tenure.until.value_or(draft->now()), draft->now());
    if (until > from) {
      added += price * static_cast<double>((until - from).count()) / kSecondsPerHour;
    }
    if (!tenure.until) per_hour += price;
  }
  constexpr int kDigits = 6;
  cost.dollarsPerHour = Rounded(per_hour, kDigits);
  added += CountTraffic(draft);
  // A job at rest keeps its time: nothing is to be written then.
  const double now_per_hour = api::DollarsPerHour(cost);
  if (added > 0 || now_per_hour > 0) cost.countedTime = std::max(draft->now(), since);
  if (now_per_hour > 0) draft->LookAgain(draft->now() + kCountPeriod);
  cost.dollars += added;
  if (cost.dollars > 0) cost.spent = DollarText(cost.dollars);
}

void ReportPrices(Draft* draft) {
  api::CostStatus& cost = draft->status().cost;
  cost.dollarsPerStep.reset();
  cost.dollarsPerBillionTokens.reset();
  const double tokens_per_hour =
      static_cast<double>(draft->status().progress.tokensPerSecond) * kSecondsPerHour;
  const double dollars_per_hour = api::DollarsPerHour(cost);
  if (tokens_per_hour == 0 || dollars_per_hour == 0) return;
  constexpr int kDigits = 3;
  constexpr double kBillion = 1e9;
  const double of_token = dollars_per_hour / tokens_per_hour;
  const api::Training& training = draft->job.spec.training;
  const auto step_tokens = static_cast<double>(training.globalBatchSize * training.sequenceLength);
  cost.dollarsPerStep = Rounded(of_token * step_tokens, kDigits);
  cost.dollarsPerBillionTokens = Rounded(of_token * kBillion, kDigits);
}

}  // namespace swarm::plan
