// The arithmetic below the balancing rules: rates, transfers, and the search for switches. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/balance/balance.h"

namespace swarm::protocol::balancing {

using Stages = std::vector<StageLoad>;

/// A worker that changes stages.
struct Hop {
  WorkerId worker;
  std::size_t from = 0;
  std::size_t to = 0;
};

/// For reasons: "2.5/s", "stage 3".
std::string Text(double rate);
std::string Text(std::size_t stage);

// Who serves what is decided by rates without the drag of copies: copies are kept only where they
// slow nothing that matters.

/// What a replica of `from` would do at another stage.
double RateAt(const Stages& stages, const ReplicaLoad& replica, std::size_t from, std::size_t to);
/// By stage: the ready replicas.
std::vector<double> ReadyRates(const Stages& stages);
/// By stage: all replicas, with the joiners.
std::vector<double> FullRates(const Stages& stages);
/// What the upkeep of its copies takes from a replica's rate.
double Drag(const ReplicaLoad& replica, const BalanceModel& model);
/// The first stage with the least rate.
std::size_t Least(const std::vector<double>& rates);
double Minimum(const std::vector<double>& rates);
std::size_t ReadyCount(const StageLoad& stage);

/// Null when it has none, complete or not.
const Copy* FindCopy(const ReplicaLoad& replica, std::size_t stage);
/// Null when the worker is not at the stage.
const ReplicaLoad* FindReplica(const StageLoad& stage, const WorkerId& worker);
ReplicaLoad* FindReplica(StageLoad* stage, const WorkerId& worker);

/// Moves a worker that is at `hop.from`; if it has a copy of `hop.to`, that becomes its state there
/// and its old state a copy.
void Transfer(Stages* stages, const Hop& hop);

/// Whether a rate is higher by more than the hysteresis.
bool Rises(double from, double to, const BalanceModel& model);

/// Switches workers to stages of which they have complete copies as long as that raises the
/// throughput of the ready; returns the hops, to be made in that order.
std::vector<Hop> SwitchAll(Stages* stages, const BalanceModel& model);

/// The swarm once all under way has arrived and the switches that pay are made.
Stages Predict(const Stages& stages, const BalanceModel& model);

}  // namespace swarm::protocol::balancing
