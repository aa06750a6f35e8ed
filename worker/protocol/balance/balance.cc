#include "worker/protocol/balance/balance.h"

#include "base/status.h"
#include "worker/protocol/balance/event_rule.h"
#include "worker/protocol/balance/periodic_rule.h"

namespace swarm::protocol {

std::vector<BalanceOrder> Balance(BalancePolicy policy, BalanceTrigger trigger,
                                  const std::vector<StageLoad>& stages, const BalanceModel& model) {
  SWARM_CHECK(!stages.empty(), "a job has stages");
  switch (policy) {
    case BalancePolicy::kNone:
      return {};
    case BalancePolicy::kPeriodic:
      return trigger == BalanceTrigger::kRound ? balancing::DecideRound(stages, model.regions)
                                               : std::vector<BalanceOrder>{};
    case BalancePolicy::kEvent:
      return balancing::DecideAtChange(stages, model);
  }
  return {};
}

StageIndex PlaceJoiner(const std::vector<StageLoad>& stages) {
  SWARM_CHECK(!stages.empty(), "a job has stages");
  return StageIndex(balancing::Least(balancing::FullRates(stages)));
}

StageIndex PlaceJoiner(const std::vector<StageLoad>& stages, const std::string& region,
                       const BalanceModel& model) {
  const StageIndex slowest = PlaceJoiner(stages);
  const std::vector<std::string> regions = RegionsOf(stages);
  if (regions.empty() || regions == std::vector{region}) return slowest;
  const std::vector<double> rates = balancing::FullRates(stages);
  if (model.regions.survive_loss) {
    if (stages[slowest.value].replicas.empty()) return slowest;
    return FindToSpread(stages, region).value_or(slowest);
  }
  std::vector<StageIndex> candidates;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (rates[s] <= rates[slowest.value] * (1 + model.min_gain)) candidates.emplace_back(s);
  }
  return FindNearest(stages, candidates, region, model.regions);
}

void Apply(const BalanceOrder& order, std::vector<StageLoad>* stages) {
  balancing::Transfer(stages, {order.worker, order.from.value, order.to.value});
  balancing::FindReplica(&(*stages)[order.to.value], order.worker)->ready = false;
}

}  // namespace swarm::protocol
