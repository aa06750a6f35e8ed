#include "worker/protocol/balance/periodic_rule.h"

#include <algorithm>
#include <cstddef>

#include "worker/protocol/balance/event_rule.h"

namespace swarm::protocol::balancing {
namespace {

/// The fastest ready replica that may go; of equally fast ones the first by id. Null: there is
/// none.
const ReplicaLoad* Fastest(const StageLoad& stage, const RegionRule& regions) {
  const ReplicaLoad* fastest = nullptr;
  for (const ReplicaLoad& replica : stage.replicas) {
    if (!replica.ready) continue;
    if (regions.survive_loss && KeepsRegionsApart(stage, replica)) continue;
    const bool faster = fastest == nullptr || replica.rate > fastest->rate ||
                        (replica.rate == fastest->rate && replica.worker < fastest->worker);
    if (faster) fastest = &replica;
  }
  return fastest;
}

}  // namespace

std::vector<BalanceOrder> DecideRound(const std::vector<StageLoad>& stages,
                                      const RegionRule& regions) {
  if (regions.survive_loss) {
    if (auto moves = OrdersOf(SpreadOverRegions(stages)); !moves.empty()) return {moves.front()};
  }
  const std::vector<double> rates = FullRates(stages);
  const std::size_t to = Least(rates);
  const auto from =
      static_cast<std::size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin());
  if (from == to || ReadyCount(stages[from]) < 2) return {};
  const ReplicaLoad* fastest = Fastest(stages[from], regions);
  if (fastest == nullptr) return {};
  const ReplicaLoad& mover = *fastest;
  const double least =
      std::min(rates[from] - mover.rate, rates[to] + RateAt(stages, mover, from, to));
  if (least <= rates[to]) return {};
  return {{mover.worker, StageIndex(from), StageIndex(to),
           Text(to) + " has " + Text(rates[to]) + ", " + Text(from) + " " + Text(rates[from])}};
}

}  // namespace swarm::protocol::balancing
