// Lanes: routes through all stages that cross each other as little as the workers' rates allow
// (docs/protocol.md, rule 29). Where every microbatch may take any replica of each stage, replicas
// are idle now and busy then, although all are alike: two microbatches meet at one and leave
// another without work. Workers that stay on a lane get their microbatches as evenly as the lane
// begins them.
//
// The workers of each stage divide a line of length 1, in order, each as much as its rate. A lane
// is a part of the line without an end of a worker's part inside. So equal stages of equal workers
// have a lane for each seat, and others at most as many lanes as workers. Deterministic. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

class Lanes {
 public:
  struct Stop {
    WorkerId worker;
    double rate = 1;  ///< > 0; in any unit that the stage has in common
  };
  using Route = std::vector<WorkerId>;

  Lanes() = default;
  /// `stages`: the workers of each, in their order. A stage without workers leaves no lanes. A
  /// worker much slower than the others of its stage may have none. The lane at `first`, modulo
  /// their number, is due first, and those behind it follow: lanes that are cut often all have
  /// their turn. Costs O(n log n), and a step for each stage of each lane.
  explicit Lanes(const std::vector<std::vector<Stop>>& stages, std::uint64_t first = 0);

  bool empty() const { return lanes_.empty(); }
  /// The route and the share of each lane.
  std::vector<std::pair<Route, double>> All() const;

  /// Whether the worker may get a microbatch now; true at first. Unknown workers are ignored. Costs
  /// O(log n) for each lane of the worker.
  void SetOpen(const WorkerId& worker, bool open);
  /// The lane that is due first, by smooth weighted round robin, of those whose workers are all
  /// open and for which `passable` is true. Nothing if there is none.
  std::optional<Route> Draw(const std::function<bool(const Route&)>& passable);

 private:
  struct Lane {
    Route route;
    double step = 0;  // how often it is due: the inverse of its share
    double due = 0;
    std::size_t closed = 0;  // of its workers
  };
  struct Worker {
    std::vector<std::size_t> lanes;
    bool open = true;
  };

  std::vector<Lane> lanes_;
  std::map<WorkerId, Worker> workers_;
  std::set<std::pair<double, std::size_t>> open_;  // (due, lane)
  double clock_ = 0;  // of the last draw: no lane saves up more than one step
};

/// The workers of a stage by seat: a function of the names, of which a worker that comes or goes
/// changes little (SeatParticipants).
std::vector<WorkerId> SeatInLanes(std::vector<WorkerId> workers);

/// Lets workers of equal rates, which stand side by side in their stage, change places, so that as
/// much of each boundary as their rates allow is within a region: every worker of a stage but the
/// first stands, if it can, where the stage before has workers of its region. What has no such
/// place stands where it takes none from others. All keep their places if they are in one region;
/// those that `regions` does not have are in a region without a name. Costs O(n R) for n workers in
/// R regions.
void BringRegionsTogether(const std::map<WorkerId, std::string>& regions,
                          std::vector<std::vector<Lanes::Stop>>* stages);

}  // namespace swarm::protocol
