#include "worker/protocol/balance/periodic_rule.h"

#include <algorithm>
#include <cstddef>

namespace swarm::protocol::balancing {
namespace {

/// The fastest ready replica; of equally fast ones the first by id. Null if none is ready.
const ReplicaLoad* Fastest(const StageLoad& stage) {
  const ReplicaLoad* fastest = nullptr;
  for (const ReplicaLoad& replica : stage.replicas) {
    if (!replica.ready) continue;
    const bool faster = fastest == nullptr || replica.rate > fastest->rate ||
                        (replica.rate == fastest->rate && replica.worker < fastest->worker);
    if (faster) fastest = &replica;
  }
  return fastest;
}

}  // namespace

std::vector<BalanceOrder> DecideRound(const std::vector<StageLoad>& stages) {
  const std::vector<double> rates = FullRates(stages);
  const std::size_t to = Least(rates);
  const auto from =
      static_cast<std::size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin());
  if (from == to || ReadyCount(stages[from]) < 2) return {};
  const ReplicaLoad& mover = *Fastest(stages[from]);
  const double least =
      std::min(rates[from] - mover.rate, rates[to] + RateAt(stages, mover, from, to));
  if (least <= rates[to]) return {};
  return {{mover.worker, StageIndex(from), StageIndex(to),
           Text(to) + " has " + Text(rates[to]) + ", " + Text(from) + " " + Text(rates[from])}};
}

}  // namespace swarm::protocol::balancing
