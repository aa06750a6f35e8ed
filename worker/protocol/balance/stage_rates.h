// The workers of each stage with their rates, and the arithmetic on them that all balancing rules
// share: which stage is the bottleneck, what a worker would do elsewhere, what the pipeline gives.
//
// The pipeline is as fast as its slowest stage. The rate of a stage is the sum of the rates of its
// replicas. Rates are in microbatches a second. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// A worker at the stage that it serves, or that it will serve once it has loaded the state.
struct ReplicaLoad {
  WorkerId worker;
  double rate = 0;     ///< at this stage, when ready
  bool ready = false;  ///< false: it is joining
  /// Without it the others of its stage would all be of one pod: it only goes to an empty stage.
  bool keeps_pods_apart = false;
  std::string region = {};  ///< empty: unknown
};

/// A stage with the workers that serve it or join it. Its index is its place in the vector.
struct StageLoad {
  double cost = 1;  ///< work of a microbatch relative to other stages: rates scale with its inverse
  std::vector<ReplicaLoad> replicas;
};

/// The rate of the slowest stage, by its ready replicas. `stages` is not empty, here and below.
double Throughput(const std::vector<StageLoad>& stages);

/// The same once all joiners are ready.
double PredictedThroughput(const std::vector<StageLoad>& stages);

namespace balancing {

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

/// The rate that a replica of `from` would have at `to`.
double RateAt(const Stages& stages, const ReplicaLoad& replica, std::size_t from, std::size_t to);
/// The rate of each stage by its ready replicas.
std::vector<double> ReadyRates(const Stages& stages);
/// The rate of each stage by all its replicas, joiners included.
std::vector<double> FullRates(const Stages& stages);
/// The bottleneck: the first stage with the least rate.
std::size_t Least(const std::vector<double>& rates);
/// The rate of the bottleneck.
double Minimum(const std::vector<double>& rates);
std::size_t ReadyCount(const StageLoad& stage);

/// Null if the worker is not at the stage.
const ReplicaLoad* FindReplica(const StageLoad& stage, const WorkerId& worker);
ReplicaLoad* FindReplica(StageLoad* stage, const WorkerId& worker);

/// Moves a worker from `hop.from`, where it must be, to `hop.to`. It keeps being ready or not.
void Transfer(Stages* stages, const Hop& hop);

}  // namespace balancing
}  // namespace swarm::protocol
