#include "worker/protocol/balance/event_rule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace swarm::protocol {
namespace balancing {
namespace {

constexpr double kLongestHoldSeconds = 3600;  // no gain is counted on for longer
constexpr int kMostRounds = 8;
constexpr std::size_t kTransfersPerStage = 8;  // a bound on the search

/// Until the next change at one of the stages concerned, as far as gains are counted on.
double HoldSeconds(const std::vector<Hop>& hops, const Stages& before, const BalanceModel& model) {
  const double churn = model.changes_per_worker_second;
  double hold = kLongestHoldSeconds;
  for (const Hop& hop : hops) {
    const std::size_t concerned = before[hop.from].replicas.size() + before[hop.to].replicas.size();
    if (churn > 0) hold = std::min(hold, 1 / (churn * static_cast<double>(concerned)));
  }
  return hold;
}

/// The transfer that raises the slowest stage most without making its own stage slower than that.
std::optional<Hop> BestTransfer(const Stages& now, const Stages& trial, const BalanceModel& model,
                                const Rank& rank) {
  const std::vector<double> rates = FullRates(trial);
  const std::size_t slowest = Least(rates);
  std::optional<Hop> best;
  std::pair<double, double> best_value;
  for (std::size_t from = 0; from < trial.size(); ++from) {
    if (from == slowest) continue;
    for (const ReplicaLoad& replica : trial[from].replicas) {
      const ReplicaLoad* here = FindReplica(now[from], replica.worker);
      if (here == nullptr || here->keeps_pods_apart) continue;
      if (model.regions.survive_loss && KeepsRegionsApart(trial[from], replica)) continue;
      const double least = std::min(rates[from] - replica.rate,
                                    rates[slowest] + RateAt(trial, replica, from, slowest));
      if (!Rises(rates[slowest], least, model)) continue;
      const std::pair value = {least, rank(*here, slowest)};
      if (best && value <= best_value) continue;
      best = Hop{replica.worker, from, slowest};
      best_value = value;
    }
  }
  return best;
}

/// What crosses between regions after the worker, which is at one of the stages, has moved.
double BytesAfter(const Stages& stages, const WorkerId& worker, std::size_t to,
                  const RegionRule& rule) {
  Stages after = stages;
  for (std::size_t from = 0; from < stages.size(); ++from) {
    if (FindReplica(stages[from], worker) != nullptr) Transfer(&after, {worker, from, to});
  }
  return CrossingBytes(after, rule);
}

/// Moves as long as they raise the predicted throughput and pay for the loading.
std::vector<BalanceOrder> Repair(const Stages& stages, const BalanceModel& model) {
  const bool near = !model.regions.survive_loss && RegionsOf(stages).size() > 1;
  // A joiner would throw away the part of the state that it has loaded.
  const Rank ready_first = [&](const ReplicaLoad& replica, std::size_t to) {
    if (!replica.ready) return 0.0;
    return near ? 1 + 1 / (1 + BytesAfter(stages, replica.worker, to, model.regions)) : 1.0;
  };
  const std::vector<Hop> hops = FindTransfers(stages, stages, model, ready_first);
  if (hops.empty()) return {};
  const std::vector<double> rates = FullRates(stages);
  std::vector<BalanceOrder> orders;
  Stages after = stages;
  for (const Hop& hop : hops) {
    orders.push_back(
        {hop.worker, StageIndex(hop.from), StageIndex(hop.to), ReasonToTransfer(hop, rates)});
    Apply(orders.back(), &after);
  }
  Worth worth;
  worth.gain = PredictedThroughput(after) - PredictedThroughput(stages);
  worth.lost = std::max(0.0, Throughput(stages) - Throughput(after));
  for (const Hop& hop : hops) {
    worth.lost += FindReplica(stages[hop.from], hop.worker)->rate * model.donor_drag;
  }
  if (Empties(stages, after) || !Pays(hops, worth, stages, model)) return {};
  return orders;
}

/// Moves after which fewer bytes cross between regions, if they save more than the states have that
/// are loaded for them.
std::vector<BalanceOrder> Approach(const Stages& stages, const BalanceModel& model) {
  if (RegionsOf(stages).size() < 2 || PredictedThroughput(stages) <= 0) return {};
  std::vector<RegionMove> moves = BringNearer(stages, model.regions);
  if (moves.empty()) return {};
  Stages after = stages;
  std::vector<Hop> hops;
  double loaded = 0;
  for (const RegionMove& move : moves) {
    hops.push_back(move.hop);
    Transfer(&after, move.hop);
    const auto& bytes = model.regions.state_bytes;
    if (bytes.size() == stages.size()) loaded += bytes[move.hop.to];
  }
  const double saved = CrossingBytes(stages, model.regions) - CrossingBytes(after, model.regions);
  const double seconds = HoldSeconds(hops, stages, model);
  if (saved * PredictedThroughput(after) * seconds <= loaded) return {};
  if (ReadyCount(stages[moves.back().hop.from]) < 2) moves.pop_back();  // when the first has come
  return OrdersOf(moves);
}

}  // namespace

std::vector<BalanceOrder> OrdersOf(const std::vector<RegionMove>& moves) {
  std::vector<BalanceOrder> orders;
  for (const auto& [hop, reason] : moves) {
    orders.push_back({hop.worker, StageIndex(hop.from), StageIndex(hop.to), reason});
  }
  return orders;
}

bool Rises(double from, double to, const BalanceModel& model) {
  return to > from * (1 + model.min_gain);
}

std::optional<Hop> BestToFill(const Stages& stages, std::size_t to, const MayGo& may_go) {
  const std::vector<double> rates = FullRates(stages);
  std::optional<Hop> best;
  double best_value = -1;
  for (std::size_t from = 0; from < stages.size(); ++from) {
    const std::size_t ready = ReadyCount(stages[from]);
    for (const ReplicaLoad& replica : stages[from].replicas) {
      if (ready < (replica.ready ? 2U : 1U) || !may_go(replica)) continue;
      const double value = std::min(rates[from] - replica.rate, RateAt(stages, replica, from, to));
      const bool first = value == best_value && best->from == from && replica.worker < best->worker;
      if (value <= best_value && !first) continue;
      best = Hop{replica.worker, from, to};
      best_value = value;
    }
  }
  return best;
}

std::string ReasonToFill(const Stages& stages, const Hop& hop) {
  return Text(hop.to) + " has no replica; " + Text(hop.from) + " has " +
         std::to_string(ReadyCount(stages[hop.from])) + " ready";
}

std::vector<Hop> FindTransfers(const Stages& now, const Stages& future, const BalanceModel& model,
                               const Rank& rank) {
  Stages trial = future;
  std::vector<Hop> tried;
  std::size_t taken = 0;
  double best = PredictedThroughput(trial);
  std::set<WorkerId> moved;
  for (std::size_t round = 0; round < future.size() * kTransfersPerStage; ++round) {
    const std::optional<Hop> hop = BestTransfer(now, trial, model, rank);
    if (!hop || !moved.insert(hop->worker).second) break;
    Transfer(&trial, *hop);
    tried.push_back(*hop);
    const double least = PredictedThroughput(trial);
    if (!Rises(best, least, model)) continue;
    best = least;
    taken = tried.size();
  }
  tried.resize(taken);
  return tried;
}

std::string ReasonToTransfer(const Hop& hop, const std::vector<double>& rates) {
  return Text(hop.to) + " would limit the job at " + Text(rates[hop.to]) + ", " + Text(hop.from) +
         " has " + Text(rates[hop.from]);
}

bool Pays(const std::vector<Hop>& hops, const Worth& worth, const Stages& before,
          const BalanceModel& model) {
  const double arrives = std::exp(-model.changes_per_worker_second * model.state_load_seconds);
  return worth.gain * HoldSeconds(hops, before, model) * arrives >
         worth.lost * model.state_load_seconds;
}

bool Empties(const Stages& before, const Stages& after) {
  for (std::size_t s = 0; s < before.size(); ++s) {
    if (ReadyCount(before[s]) > 0 && ReadyCount(after[s]) == 0) return true;
  }
  return false;
}

// Each move changes the worth of others, so the rule runs until it has nothing to add.
std::vector<BalanceOrder> DecideAtChange(const std::vector<StageLoad>& stages,
                                         const BalanceModel& model) {
  Stages now = stages;
  std::vector<BalanceOrder> orders;
  const auto take = [&](std::vector<BalanceOrder> more) {
    for (BalanceOrder& order : more) {
      Apply(order, &now);
      orders.push_back(std::move(order));
    }
  };
  for (int round = 0; round < kMostRounds; ++round) {
    const std::size_t before = orders.size();
    if (PredictedThroughput(now) <= 0) take(FillEmptied(now, model.regions));
    const std::size_t filled = orders.size();
    if (model.regions.survive_loss) take(OrdersOf(SpreadOverRegions(now)));
    if (orders.size() > filled) break;  // the load decides when these have come
    take(Repair(now, model));
    if (orders.size() == before) break;
  }
  if (orders.empty() && !model.regions.survive_loss) take(Approach(now, model));
  return orders;
}

}  // namespace balancing

std::vector<BalanceOrder> FillEmptied(const std::vector<StageLoad>& stages,
                                      const RegionRule& rule) {
  std::vector<StageLoad> now = stages;
  std::vector<BalanceOrder> orders;
  for (std::size_t to = 0; to < now.size(); ++to) {
    if (!now[to].replicas.empty()) continue;
    const auto keeps_apart = [&](const ReplicaLoad& replica) {
      return std::ranges::any_of(now, [&](const StageLoad& stage) {
        const ReplicaLoad* found = balancing::FindReplica(stage, replica.worker);
        return found != nullptr && KeepsRegionsApart(stage, *found);
      });
    };
    std::optional<balancing::Hop> hop;
    if (rule.survive_loss) {
      hop = balancing::BestToFill(now, to, [&](const auto& r) { return !keeps_apart(r); });
    }
    if (!hop) hop = balancing::BestToFill(now, to, [](const ReplicaLoad&) { return true; });
    if (!hop) continue;
    orders.push_back(
        {hop->worker, StageIndex(hop->from), StageIndex(to), balancing::ReasonToFill(now, *hop)});
    Apply(orders.back(), &now);
  }
  return orders;
}

}  // namespace swarm::protocol
