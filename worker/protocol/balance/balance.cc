#include "worker/protocol/balance/balance.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"
#include "worker/protocol/balance/event_rule.h"
#include "worker/protocol/balance/swarm_rule.h"

namespace swarm::protocol {
namespace {

using balancing::Drag;
using balancing::FindCopy;
using balancing::FindReplica;
using balancing::FullRates;
using balancing::Hop;
using balancing::Least;
using balancing::Minimum;
using balancing::Predict;
using balancing::RateAt;
using balancing::ReadyCount;
using balancing::ReadyRates;
using balancing::Stages;
using balancing::Text;
using balancing::Transfer;

/// One round of SWARM's rule. Load is the queue per replica, the inverse of the stage's rate; the
/// replica with the shortest queue is the fastest. Better than published in two points: who is
/// joining counts, and nobody moves when that would only exchange the two stages' places.
std::vector<BalanceOrder> PeriodicRule(const Stages& stages) {
  const std::vector<double> rates = FullRates(stages);
  const std::size_t to = Least(rates);
  const auto from =
      static_cast<std::size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin());
  if (from == to || ReadyCount(stages[from]) < 2) return {};
  const ReplicaLoad* mover = nullptr;
  for (const ReplicaLoad& replica : stages[from].replicas) {
    if (!replica.ready) continue;
    const bool better = mover == nullptr || replica.rate > mover->rate ||
                        (replica.rate == mover->rate && replica.worker < mover->worker);
    if (better) mover = &replica;
  }
  const double least =
      std::min(rates[from] - mover->rate, rates[to] + RateAt(stages, *mover, from, to));
  if (least <= rates[to]) return {};
  return {{BalanceAction::kMove, mover->worker, StageIndex(from), StageIndex(to),
           Text(to) + " has " + Text(rates[to]) + ", " + Text(from) + " " + Text(rates[from])}};
}

bool Holds(const ReplicaLoad& replica, std::size_t stage) {
  const Copy* copy = FindCopy(replica, stage);
  return copy != nullptr && copy->seconds_left <= 0;
}

/// Whether someone is fetching the state of the stage.
bool Awaited(const Stages& stages, std::size_t wanted) {
  for (const StageLoad& stage : stages) {
    for (const ReplicaLoad& replica : stage.replicas) {
      if (FindCopy(replica, wanted) != nullptr && !Holds(replica, wanted)) return true;
    }
  }
  return false;
}

/// Whether another stage without replicas counts on it.
bool IsAwaited(const Stages& stages, const ReplicaLoad& replica) {
  return std::any_of(replica.copies.begin(), replica.copies.end(),
                     [&](const Copy& copy) { return stages[copy.stage.value].replicas.empty(); });
}

/// Who leaves the weaker of the two stages best off, among those who hold the state, or among the
/// others; its own stage must keep a ready replica.
std::optional<Hop> BestToFill(const Stages& stages, std::size_t to, bool holders) {
  const std::vector<double> rates = FullRates(stages);
  std::optional<Hop> best;
  double best_value = -1;
  for (std::size_t from = 0; from < stages.size(); ++from) {
    const std::size_t ready = ReadyCount(stages[from]);
    for (const ReplicaLoad& replica : stages[from].replicas) {
      if (ready < (replica.ready ? 2U : 1U)) continue;
      if (holders ? !replica.ready || !Holds(replica, to) : IsAwaited(stages, replica)) continue;
      const double value = std::min(rates[from] - replica.rate, RateAt(stages, replica, from, to));
      const bool first = value == best_value && best->from == from && replica.worker < best->worker;
      if (value <= best_value && !first) continue;
      best = Hop{replica.worker, from, to};
      best_value = value;
    }
  }
  return best;
}

}  // namespace

std::vector<BalanceOrder> Balance(BalancePolicy policy, BalanceTrigger trigger,
                                  const std::vector<StageLoad>& stages, const BalanceModel& model) {
  SWARM_CHECK(!stages.empty(), "a swarm has stages");
  switch (policy) {
    case BalancePolicy::kNone:
      return {};
    case BalancePolicy::kPeriodic:
      return trigger == BalanceTrigger::kRound ? PeriodicRule(stages) : std::vector<BalanceOrder>{};
    case BalancePolicy::kEvent:
      return balancing::DecideAtChange(stages, model);
  }
  return {};
}

StageIndex PlaceJoiner(const std::vector<StageLoad>& stages) {
  SWARM_CHECK(!stages.empty(), "a swarm has stages");
  return StageIndex(Least(FullRates(stages)));
}

std::vector<BalanceOrder> FillEmptied(const std::vector<StageLoad>& stages,
                                      const BalanceModel& model) {
  Stages now = stages;
  std::vector<BalanceOrder> orders;
  for (std::size_t to = 0; to < now.size(); ++to) {
    if (!now[to].replicas.empty()) continue;
    std::optional<Hop> hop = BestToFill(now, to, /*holders=*/true);
    const BalanceAction action = hop ? BalanceAction::kSwitch : BalanceAction::kMove;
    if (!hop && !Awaited(now, to)) hop = BestToFill(now, to, /*holders=*/false);
    if (!hop) continue;
    orders.push_back({action, hop->worker, StageIndex(hop->from), StageIndex(to),
                      Text(to) + " has no replica; " + Text(hop->from) + " has " +
                          std::to_string(ReadyCount(now[hop->from])) + " ready"});
    Apply(orders.back(), &now, model);
  }
  return orders;
}

double Throughput(const std::vector<StageLoad>& stages, const BalanceModel& model) {
  std::vector<double> rates = ReadyRates(stages);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const ReplicaLoad& replica : stages[s].replicas) {
      if (replica.ready) rates[s] -= Drag(replica, model);
    }
  }
  return Minimum(rates);
}

double PredictedThroughput(const std::vector<StageLoad>& stages, const BalanceModel& model) {
  return Minimum(FullRates(Predict(stages, model)));
}

void Apply(const BalanceOrder& order, std::vector<StageLoad>* stages, const BalanceModel& model) {
  const Hop hop = {order.worker, order.from.value, order.to.value};
  switch (order.action) {
    case BalanceAction::kSwitch:
      Transfer(stages, hop);
      return;
    case BalanceAction::kMove: {
      Transfer(stages, hop);
      ReplicaLoad& replica = *FindReplica(&(*stages)[hop.to], hop.worker);
      replica.ready = false;
      replica.copies.clear();
      return;
    }
    case BalanceAction::kFetch:
      FindReplica(&(*stages)[hop.from], hop.worker)
          ->copies.push_back({order.to, model.state_load_seconds});
      return;
    case BalanceAction::kDrop:
      std::erase_if(FindReplica(&(*stages)[hop.from], hop.worker)->copies,
                    [&](const Copy& copy) { return copy.stage == order.to; });
      return;
  }
}

std::string_view ActionName(BalanceAction action) {
  switch (action) {
    case BalanceAction::kSwitch:
      return "Switch";
    case BalanceAction::kFetch:
      return "Fetch";
    case BalanceAction::kDrop:
      return "Drop";
    case BalanceAction::kMove:
      return "Move";
  }
  return "?";
}

}  // namespace swarm::protocol
