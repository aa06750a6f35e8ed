// What regions mean for who serves which stage: that no stage is lost with one region, or that few
// bytes go from one region to another. Where all workers are in one region, nothing here decides
// anything. A region without a name is as good as another. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/balance/stage_rates.h"

namespace swarm::protocol {

/// How the regions of workers count.
struct RegionRule {
  /// Each stage is to have replicas in two regions, as far as there are workers for it; the load
  /// counts less. False: the load decides, and of what is as good for it the fewest bytes between
  /// regions.
  bool survive_loss = false;
  /// Of a microbatch over the boundary between two stages, there and back.
  double boundary_bytes = 0;
  /// By stage, for each microbatch: a step's sum of the gradients, divided by its microbatches.
  /// Of another length: 0.
  std::vector<double> sum_bytes = {};
  /// By stage: what a worker loads that joins it. Of another length: 0.
  std::vector<double> state_bytes = {};
};

/// A worker that leaves `from` for `to`, and why.
struct RegionMove {
  balancing::Hop hop;
  std::string reason;
};

/// The regions of all workers, in order, each once.
std::vector<std::string> RegionsOf(const std::vector<StageLoad>& stages);

/// How many stages have replicas in two regions or more, joiners included.
std::size_t CountSpread(const std::vector<StageLoad>& stages);

/// The most that could have, if the same workers sat anywhere and each stage had one.
std::size_t MostSpread(const std::vector<StageLoad>& stages);

/// Whether a stage that is in two regions would be in one without the replica: of all replicas, or
/// of those that are ready.
bool KeepsRegionsApart(const StageLoad& stage, const ReplicaLoad& replica);

/// The slowest stage whose replicas are all of one region, another than `region`. None: there is no
/// such stage.
std::optional<StageIndex> FindToSpread(const std::vector<StageLoad>& stages,
                                       const std::string& region);

/// The moves after which more stages are in two regions, until MostSpread is reached; empty if it
/// is, or as long as that needs a worker that is not ready yet. None leaves a stage without a ready
/// replica, or lowers CountSpread. Where one move does not help, two do; the second follows when
/// the first is done.
std::vector<RegionMove> SpreadOverRegions(const std::vector<StageLoad>& stages);

/// The least bytes that cross from one region to another for a microbatch, if each replica works as
/// its rate says: those of routes that change regions as seldom as the shares of the stages allow,
/// and those of sums that are made in each region first (LeastCrossings). A stage without replicas
/// counts as if it were not there.
double CrossingBytes(const std::vector<StageLoad>& stages, const RegionRule& rule);

/// Of the stages that a newcomer from `region` may join, the one with which the fewest bytes cross;
/// then the slowest, then the one next to workers of its region or far from those of others, then
/// the first. `candidates` is not empty.
StageIndex FindNearest(const std::vector<StageLoad>& stages,
                       const std::vector<StageIndex>& candidates, const std::string& region,
                       const RegionRule& rule);

/// The move, or the exchange of two workers, that keeps the throughput and saves the most bytes
/// between regions, if it saves a part that is worth it: at most two moves. The stage that gives
/// the first worker keeps a ready one; that which gives the second may have to wait for the first.
std::vector<RegionMove> BringNearer(const std::vector<StageLoad>& stages, const RegionRule& rule);

/// For people: which stages are served by ready replicas of one region alone, and whether others
/// could be. Empty: each stage has two regions.
std::string DescribeOneRegion(const std::vector<StageLoad>& stages);

}  // namespace swarm::protocol
