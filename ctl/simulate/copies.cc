#include "ctl/simulate/copies.h"

#include <algorithm>
#include <optional>

#include "worker/protocol/balance/event_rule.h"

namespace swarm::ctl {

using protocol::ReplicaLoad;
using protocol::StageIndex;
using protocol::StageLoad;
using protocol::WorkerId;
using protocol::balancing::FindReplica;
using protocol::balancing::Hop;
using protocol::balancing::Least;
using protocol::balancing::Minimum;
using protocol::balancing::RateAt;
using protocol::balancing::ReadyRates;
using protocol::balancing::Rises;

namespace {

constexpr std::size_t kRoundsPerStage = 8;  // a bound on the search

void Switch(CopySwarm* swarm, const Hop& hop) {
  protocol::balancing::Transfer(&swarm->stages, hop);
  for (Copy& copy : swarm->copies[hop.worker]) {
    if (copy.stage.value == hop.to) copy = {StageIndex(hop.from), 0};
  }
}

/// The ready worker at `from` with a complete copy of `to` whose switch serves the weaker of the
/// two stages best.
std::optional<Hop> BestHop(const CopySwarm& swarm, const std::vector<double>& rates,
                           std::size_t from, std::size_t to) {
  std::optional<Hop> best;
  double best_value = -1;
  for (const ReplicaLoad& replica : swarm.stages[from].replicas) {
    if (!replica.ready || !swarm.Holds(replica.worker, to)) continue;
    const double value =
        std::min(rates[from] - replica.rate, rates[to] + RateAt(swarm.stages, replica, from, to));
    if (value > best_value || (value == best_value && replica.worker < best->worker)) {
      best = Hop{replica.worker, from, to};
      best_value = value;
    }
  }
  return best;
}

/// The shortest chain of switches that raises the slowest stage above its old rate, and leaves no
/// stage of the chain below: a breadth-first search backwards from the slowest stage over the
/// copies. The far end gives first, so that a stage with one replica receives before it gives.
std::vector<Hop> FindChain(const CopySwarm& swarm, const CopyModel& model) {
  const std::vector<StageLoad>& stages = swarm.stages;
  const std::vector<double> rates = ReadyRates(stages);
  const std::size_t slowest = Least(rates);
  std::vector<std::optional<Hop>> toward(stages.size());  // the hop out of a stage, once reached
  std::vector<std::size_t> queue = {slowest};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (std::size_t from = 0; from < stages.size(); ++from) {
      if (from == slowest || toward[from]) continue;
      toward[from] = BestHop(swarm, rates, from, queue[head]);
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
      if (Rises(rates[slowest], least, model.balance)) return chain;
    }
  }
  return {};
}

}  // namespace

const std::vector<Copy>& CopySwarm::Of(const WorkerId& worker) const {
  static const std::vector<Copy> kNone;
  const auto it = copies.find(worker);
  return it == copies.end() ? kNone : it->second;
}

const Copy* CopySwarm::Find(const WorkerId& worker, std::size_t stage) const {
  for (const Copy& copy : Of(worker)) {
    if (copy.stage.value == stage) return &copy;
  }
  return nullptr;
}

bool CopySwarm::Holds(const WorkerId& worker, std::size_t stage) const {
  const Copy* copy = Find(worker, stage);
  return copy != nullptr && copy->seconds_left <= 0;
}

void Apply(const CopyOrder& order, CopySwarm* swarm, const CopyModel& model) {
  switch (order.action) {
    case CopyAction::kSwitch:
      Switch(swarm, {order.worker, order.from.value, order.to.value});
      return;
    case CopyAction::kFetch:
      swarm->copies[order.worker].push_back({order.to, model.balance.state_load_seconds});
      return;
    case CopyAction::kDrop:
      std::erase_if(swarm->copies[order.worker],
                    [&](const Copy& copy) { return copy.stage == order.to; });
      return;
    case CopyAction::kMove:
      protocol::Apply({order.worker, order.from, order.to, order.reason}, &swarm->stages);
      swarm->copies.erase(order.worker);
      return;
  }
}

double Drag(const CopySwarm& swarm, const ReplicaLoad& replica, const CopyModel& model) {
  const auto copies = static_cast<double>(swarm.Of(replica.worker).size());
  return replica.rate * std::min(1.0, model.copy_drag * copies);
}

double Throughput(const CopySwarm& swarm, const CopyModel& model) {
  std::vector<double> rates = ReadyRates(swarm.stages);
  for (std::size_t s = 0; s < swarm.stages.size(); ++s) {
    for (const ReplicaLoad& replica : swarm.stages[s].replicas) {
      if (replica.ready) rates[s] -= Drag(swarm, replica, model);
    }
  }
  return Minimum(rates);
}

// Several stages may share the last place: a chain that raises only one of them counts once the
// others are raised, too.
std::vector<Hop> SwitchAll(CopySwarm* swarm, const CopyModel& model) {
  CopySwarm trial = *swarm;
  std::vector<Hop> tried;
  std::size_t taken = 0;
  double best = protocol::Throughput(trial.stages);
  const std::size_t most = trial.stages.size() * kRoundsPerStage;
  for (std::size_t round = 0; round < most; ++round) {
    const std::vector<Hop> chain = FindChain(trial, model);
    if (chain.empty()) break;
    for (const Hop& hop : chain) {
      Switch(&trial, hop);
      tried.push_back(hop);
    }
    const double now = protocol::Throughput(trial.stages);
    if (!Rises(best, now, model.balance)) continue;
    best = now;
    taken = tried.size();
    *swarm = trial;
  }
  tried.resize(taken);
  return tried;
}

CopySwarm Predict(const CopySwarm& swarm, const CopyModel& model) {
  CopySwarm future = swarm;
  for (StageLoad& stage : future.stages) {
    for (ReplicaLoad& replica : stage.replicas) replica.ready = true;
  }
  for (auto& [worker, copies] : future.copies) {
    for (Copy& copy : copies) copy.seconds_left = 0;
  }
  SwitchAll(&future, model);
  return future;
}

double PredictedThroughput(const CopySwarm& swarm, const CopyModel& model) {
  return protocol::PredictedThroughput(Predict(swarm, model).stages);
}

}  // namespace swarm::ctl
