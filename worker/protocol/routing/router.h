// Draws the route of each microbatch: one worker for each stage, by lane (lanes/lanes.h), by shares
// (ways.h) or by wiring (wiring.h), within the limit of microbatches that each worker may have in
// flight. By shares and wiring it prefers neighbours of the worker before (mesh/mesh.h). The router
// is separate from the coordinator so that there may be many routers with disjoint ranges of
// microbatches (docs/protocol.md, rule 27). Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/reachability/broken_pairs.h"
#include "worker/protocol/routing/lanes/lanes.h"
#include "worker/protocol/routing/mesh/mesh.h"
#include "worker/protocol/routing/ways.h"
#include "worker/protocol/routing/wiring.h"

namespace swarm::protocol {

/// Bounds of the microbatches that a worker may have in flight, whatever is measured.
struct InFlightBounds {
  std::uint64_t most = 0;  ///< except for a repair; 0: as many as Router allows of itself
  std::uint64_t least =
      0;  ///< a worker gets so many, even if fewer would keep it busy; `most` wins
};

class Router {
 public:
  /// `broken` outlives the router; null: all workers reach each other.
  Router(std::uint64_t seed, std::uint64_t stages, InFlightBounds bounds = {},
         const BrokenPairs* broken = nullptr);

  /// Sets the replicas of each stage and with them the in-flight limits.
  void SetReplicas(const std::vector<std::vector<WorkerId>>& replicas_per_stage);

  /// Routes of fresh microbatches follow the shares from now on; empty: the lanes. `places` are
  /// those of all workers.
  void SetShares(Shares shares, Ways::Places places);
  const Shares& shares() const { return shares_; }
  /// What the lanes would be as shares; empty: not every stage is measured, or the place of
  /// a worker is not known.
  Shares SharesOfLanes(const Ways::Places& places);
  /// Where the workers are: lanes that are cut from now on lead from region to region as seldom as
  /// they can. Those that are not among them are in a region without a name.
  void SetRegions(std::map<WorkerId, std::string> regions);
  /// These reach each other through the relay alone: routes lead from one to another of them only
  /// where there is no other way.
  void SetRelayed(std::set<WorkerId> workers) { relayed_ = std::move(workers); }
  /// One of so many routes is plain all the same: so every link stays measured.
  static constexpr std::uint64_t kPlainEvery = 64;

  /// Fresh microbatches go from neighbour to neighbour from now on, as long as one has room.
  void SetMesh(Mesh mesh) { mesh_ = std::move(mesh); }

  /// A part of a route.
  struct Part {
    std::uint64_t begin = 0, end = 0;  ///< stages [begin, end)
    /// May take one slot above a worker's limit, which fresh microbatches never take: otherwise the
    /// microbatches that wait for the repair could keep it out (rule 24).
    bool repair = false;
    WorkerId avoid = {};              ///< is drawn only if there is no other
    WorkerId below = {}, above = {};  ///< execute the stages beside the part; empty: none
  };

  /// Draws one worker for each stage of the part, and charges each one microbatch in flight.
  /// Returns nothing if one of the stages has no worker below its limit. Prefers workers that reach
  /// those beside them on the route.
  std::optional<std::vector<WorkerId>> Draw(const Part& part);
  /// The route of a fresh microbatch through all stages.
  std::optional<std::vector<WorkerId>> Draw() { return Draw({.begin = 0, .end = wiring_.size()}); }
  /// Draws a route through all stages, of workers that are not among `others` of their stage as far
  /// as it has any, and charges each. Nothing if such a worker, or any of a stage that has none, is
  /// not below its limit.
  std::optional<std::vector<WorkerId>> DrawOther(const std::vector<std::set<WorkerId>>& others);

  /// The worker has done its part of a microbatch.
  void Release(const WorkerId& worker);
  /// Records how long the worker took for the forward or the backward of a microbatch.
  void MeasureForward(const WorkerId& worker, double seconds);
  void MeasureBackward(const WorkerId& worker, double seconds);
  /// Records the time from the drawing of a fresh microbatch, of which the worker did a part, until
  /// all were done with it, transfers included.
  void MeasureStay(const WorkerId& worker, double seconds);
  /// Records that the worker has had a microbatch for `seconds` and is not done: it is at least
  /// that slow.
  void Charge(const WorkerId& worker, double seconds);

  std::uint64_t in_flight(const WorkerId& worker) const;
  std::uint64_t limit(const WorkerId& worker) const;
  double EstimateSeconds(const WorkerId& worker) const;
  /// Whether EstimateSeconds() is a measurement of this worker.
  bool IsMeasured(const WorkerId& worker) const;
  /// What the worker itself took for a microbatch, as measured; without what it was charged for
  /// waiting, of which others may be the cause. 0: not measured.
  double ServiceSeconds(const WorkerId& worker) const;

 private:
  struct Load {
    std::uint64_t stage = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t limit = 0;
    std::uint64_t limit_unmeasured = 0;
    double forward_seconds = 0;  // of the forward whose backward is not reported yet (an average)
    double service_seconds = 0;  // of both (an average); 0: none yet
    double stay = 0;             // the least that was measured; 0: none yet
    double in_lanes = 0;         // the rate by which lanes were cut
  };
  /// Whether there may be a better way than from one of the two to the other.
  bool Avoids(const WorkerId& before, const WorkerId& after) const;
  void Measure(const WorkerId& worker, std::uint64_t stage, double seconds);
  void UpdateLimit(const WorkerId& worker, Load& load);
  /// Every change of a load ends with this.
  void UpdateOpen(const WorkerId& worker, const Load& load);
  /// The workers of a stage in the order of their parts of a line of lanes.
  std::vector<Lanes::Stop> LineUp(const Wiring& wiring) const;
  void CutLanes();
  std::optional<std::vector<WorkerId>> DrawLane(const Part& part);
  bool HasRoom(const WorkerId& worker, bool repair) const;
  bool AnyHasRoom(std::uint64_t stage, bool repair) const;
  std::optional<std::vector<WorkerId>> DrawPlain(const Part& part);
  /// Each has one microbatch more in flight.
  void Occupy(const std::vector<WorkerId>& route);
  /// The stage of which a part is drawn first. In a mesh that with the fewest open workers, since
  /// those of the others that are its neighbours are more likely to be open.
  std::uint64_t FirstToDraw(const Part& part) const;
  /// `before`, `after`: the workers beside the stage on the route; empty: none, or not drawn yet.
  /// `few`: those to prefer; null: none.
  WorkerId PickFor(std::uint64_t stage, const Part& part, const WorkerId& before,
                   const WorkerId& after, const std::vector<WorkerId>* few);

  const InFlightBounds bounds_;
  const BrokenPairs* const broken_;
  std::vector<Wiring> wiring_;  // per stage
  Shares shares_;
  Ways::Places places_;
  Ways ways_;                                // of the present members
  std::map<WorkerId, std::string> regions_;  // empty: all are in one
  std::set<WorkerId> relayed_;
  Lanes lanes_;  // of the present members; empty before each stage is measured
  bool lanes_are_stale_ = true;
  std::uint64_t lanes_cut_ = 0;  // at this number of fresh routes
  Mesh mesh_;
  std::uint64_t fresh_ = 0;  // routes of fresh microbatches so far
  std::map<WorkerId, Load> loads_;
};

/// How many microbatches a worker of each stage may hold at once before anything is measured.
///
/// A microbatch occupies stage s from its forward there until its backward there. In that time the
/// later stages do all their work on it. With every replica of stages s..S-1 kept busy with one
/// microbatch in work and one waiting, stage s holds 2 * (R_s + ... + R_{S-1}) among R_s replicas.
std::vector<std::uint64_t> ComputeInFlightLimits(const std::vector<std::uint64_t>& replicas);

/// The limit of a measured worker: it never waits for bytes that could have been there (rule 24).
/// The sum of
/// - the microbatches that the worker works through, at `service` seconds each, in the time `stay`:
///   from the drawing of a microbatch to the moment all workers are done with it, on an idle swarm.
///   That time includes all computing, transfers and round trips on the way. (Routes are drawn
///   whole: if a worker of a late stage, which is done earlier, had a lower limit, those before it
///   would wait for it while they have room;)
/// - two for each of the stages: a forward and a backward that wait there. No two computations or
///   transfers take the same time, and a late worker leaves the next one without work unless
///   something waits there. (This holds for the last stage, too, where only forwards wait:
///   backwards go first everywhere, so nearly all waiting is on the way there.)
///
/// Not less than `without`, the limit without a measurement, and else not more than `most`, so that
/// memory stays bounded (rule 26).
std::uint64_t ComputeInFlightLimit(double service, double stay, std::uint64_t without,
                                   std::uint64_t stages, std::uint64_t most);
/// The bound of a measured worker, for each of the stages, where InFlightBounds has none.
inline constexpr std::uint64_t kInFlightPerStage = 16;

}  // namespace swarm::protocol
