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
      return trigger == BalanceTrigger::kRound ? balancing::DecideRound(stages)
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

void Apply(const BalanceOrder& order, std::vector<StageLoad>* stages) {
  balancing::Transfer(stages, {order.worker, order.from.value, order.to.value});
  balancing::FindReplica(&(*stages)[order.to.value], order.worker)->ready = false;
}

}  // namespace swarm::protocol
