#include "worker/protocol/balance/swarm_rule.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/status.h"

namespace swarm::protocol::balancing {
namespace {

constexpr std::size_t kRoundsPerStage = 8;  // a bound on the search

}  // namespace

std::string Text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g/s", rate);
  return text;
}

std::string Text(std::size_t stage) { return "stage " + std::to_string(stage); }

double RateAt(const Stages& stages, const ReplicaLoad& replica, std::size_t from, std::size_t to) {
  return replica.rate * stages[from].cost / stages[to].cost;
}

std::vector<double> ReadyRates(const Stages& stages) {
  std::vector<double> rates(stages.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const ReplicaLoad& replica : stages[s].replicas) {
      if (replica.ready) rates[s] += replica.rate;
    }
  }
  return rates;
}

std::vector<double> FullRates(const Stages& stages) {
  std::vector<double> rates(stages.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const ReplicaLoad& replica : stages[s].replicas) rates[s] += replica.rate;
  }
  return rates;
}

double Drag(const ReplicaLoad& replica, const BalanceModel& model) {
  return replica.rate * std::min(1.0, model.copy_drag * static_cast<double>(replica.copies.size()));
}

std::size_t Least(const std::vector<double>& rates) {
  return static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
}

double Minimum(const std::vector<double>& rates) { return rates[Least(rates)]; }

std::size_t ReadyCount(const StageLoad& stage) {
  return static_cast<std::size_t>(
      std::count_if(stage.replicas.begin(), stage.replicas.end(),
                    [](const ReplicaLoad& replica) { return replica.ready; }));
}

const Copy* FindCopy(const ReplicaLoad& replica, std::size_t stage) {
  for (const Copy& copy : replica.copies) {
    if (copy.stage.value == stage) return &copy;
  }
  return nullptr;
}

const ReplicaLoad* FindReplica(const StageLoad& stage, const WorkerId& worker) {
  for (const ReplicaLoad& replica : stage.replicas) {
    if (replica.worker == worker) return &replica;
  }
  return nullptr;
}

ReplicaLoad* FindReplica(StageLoad* stage, const WorkerId& worker) {
  return const_cast<ReplicaLoad*>(FindReplica(*stage, worker));
}

void Transfer(Stages* stages, const Hop& hop) {
  ReplicaLoad* found = FindReplica(&(*stages)[hop.from], hop.worker);
  SWARM_CHECK(found != nullptr, hop.worker.value + " is not at " + Text(hop.from));
  ReplicaLoad replica = std::move(*found);
  auto& left = (*stages)[hop.from].replicas;
  left.erase(left.begin() + (found - left.data()));
  replica.rate = RateAt(*stages, replica, hop.from, hop.to);
  for (Copy& copy : replica.copies) {
    if (copy.stage.value == hop.to) copy = {StageIndex(hop.from), 0};
  }
  (*stages)[hop.to].replicas.push_back(std::move(replica));
}

bool Rises(double from, double to, const BalanceModel& model) {
  return to > from * (1 + model.min_gain);
}

namespace {

/// The ready worker at `from` with a complete copy of `to` whose going serves the weaker of the two
/// best.
std::optional<Hop> BestHop(const Stages& stages, const std::vector<double>& rates, std::size_t from,
                           std::size_t to) {
  std::optional<Hop> best;
  double best_value = -1;
  for (const ReplicaLoad& replica : stages[from].replicas) {
    const Copy* copy = FindCopy(replica, to);
    if (!replica.ready || copy == nullptr || copy->seconds_left > 0) continue;
    const double value =
        std::min(rates[from] - replica.rate, rates[to] + RateAt(stages, replica, from, to));
    if (value > best_value || (value == best_value && replica.worker < best->worker)) {
      best = Hop{replica.worker, from, to};
      best_value = value;
    }
  }
  return best;
}

/// The shortest chain of switches that raises the slowest stage above its old rate, and leaves no
/// stage of the chain below: a breadth-first search backwards from the slowest stage over who has a
/// copy of what. The far end gives first, so that a stage with one replica receives before it
/// gives.
std::vector<Hop> FindChain(const Stages& stages, const BalanceModel& model) {
  const std::vector<double> rates = ReadyRates(stages);
  const std::size_t slowest = Least(rates);
  std::vector<std::optional<Hop>> toward(stages.size());  // the hop out of a stage, once reached
  std::vector<std::size_t> queue = {slowest};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (std::size_t from = 0; from < stages.size(); ++from) {
      if (from == slowest || toward[from]) continue;
      toward[from] = BestHop(stages, rates, from, queue[head]);
      if (!toward[from]) continue;
      queue.push_back(from);
      std::vector<Hop> chain;
      std::vector<double> after = rates;
      for (std::size_t s = from; s != slowest; s = toward[s]->to) {
        const ReplicaLoad& replica = *FindReplica(stages[s], toward[s]->worker);
        after[s] -= replica.rate;
        after[toward[s]->to] += RateAt(stages, replica, s, toward[s]->to);
        chain.push_back(*toward[s]);
      }
      double least = after[slowest];
      for (const Hop& hop : chain) least = std::min(least, after[hop.from]);
      if (Rises(rates[slowest], least, model)) return chain;
    }
  }
  return {};
}

}  // namespace

// Several stages may share the last place: a chain that raises only one of them counts once the
// others are raised, too.
std::vector<Hop> SwitchAll(Stages* stages, const BalanceModel& model) {
  Stages trial = *stages;
  std::vector<Hop> tried;
  std::size_t taken = 0;
  double best = Minimum(ReadyRates(trial));
  const std::size_t most = stages->size() * kRoundsPerStage;
  for (std::size_t round = 0; round < most; ++round) {
    const std::vector<Hop> chain = FindChain(trial, model);
    if (chain.empty()) break;
    for (const Hop& hop : chain) {
      Transfer(&trial, hop);
      tried.push_back(hop);
    }
    const double now = Minimum(ReadyRates(trial));
    if (!Rises(best, now, model)) continue;
    best = now;
    taken = tried.size();
    *stages = trial;
  }
  tried.resize(taken);
  return tried;
}

Stages Predict(const Stages& stages, const BalanceModel& model) {
  Stages future = stages;
  for (StageLoad& stage : future) {
    for (ReplicaLoad& replica : stage.replicas) {
      replica.ready = true;
      for (Copy& copy : replica.copies) copy.seconds_left = 0;
    }
  }
  SwitchAll(&future, model);
  return future;
}

}  // namespace swarm::protocol::balancing
