#include "worker/protocol/balance/stage_rates.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/status.h"

namespace swarm::protocol {

double Throughput(const std::vector<StageLoad>& stages) {
  return balancing::Minimum(balancing::ReadyRates(stages));
}

double PredictedThroughput(const std::vector<StageLoad>& stages) {
  return balancing::Minimum(balancing::FullRates(stages));
}

namespace balancing {

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

std::size_t Least(const std::vector<double>& rates) {
  return static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
}

double Minimum(const std::vector<double>& rates) { return rates[Least(rates)]; }

std::size_t ReadyCount(const StageLoad& stage) {
  return static_cast<std::size_t>(
      std::count_if(stage.replicas.begin(), stage.replicas.end(),
                    [](const ReplicaLoad& replica) { return replica.ready; }));
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
  (*stages)[hop.to].replicas.push_back(std::move(replica));
}

}  // namespace balancing
}  // namespace swarm::protocol
