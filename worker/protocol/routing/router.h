// Draws the route of each microbatch: one worker a stage, by wiring, bounded by what each worker
// may have in flight. Apart from the coordinator so that there may be many routers with disjoint
// ranges of microbatches (docs/protocol.md, rule 27). Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "worker/protocol/routing/wiring.h"

namespace swarm::protocol {

class Router {
 public:
  /// No worker is ever given more than `in_flight_max` at once, but for a repair; 0: any number.
  Router(std::uint64_t seed, std::uint64_t stages, std::uint64_t in_flight_max = 0);

  /// Sets the replicas of each stage and with them the in-flight limits.
  void SetReplicas(const std::vector<std::vector<WorkerId>>& replicas_per_stage);

  /// One worker for each of the stages [begin, end), each charged one microbatch in flight; nothing
  /// when one of the stages has no worker below its limit. A `repair` may take one slot more, which
  /// fresh microbatches never do, so that it cannot be kept out by what waits for it (rule 24).
  /// `avoid` is drawn only where there is no other.
  std::optional<std::vector<WorkerId>> Draw(std::uint64_t begin, std::uint64_t end, bool repair,
                                            const WorkerId& avoid = {});
  /// For a whole fresh microbatch.
  std::optional<std::vector<WorkerId>> Draw() { return Draw(0, wiring_.size(), false); }

  /// The worker has done its part of a microbatch.
  void Release(const WorkerId& worker);
  /// A measured part (forward or backward) of a microbatch at the worker.
  void MeasureForward(const WorkerId& worker, double seconds);
  void MeasureBackward(const WorkerId& worker, double seconds);
  /// So long after a fresh microbatch was drawn it was done at the worker, wherever it was.
  void MeasureStay(const WorkerId& worker, double seconds);
  /// The worker has had a microbatch for so long and is not done: it is at least that slow.
  void Charge(const WorkerId& worker, double seconds);

  std::uint64_t in_flight(const WorkerId& worker) const;
  std::uint64_t limit(const WorkerId& worker) const;
  double EstimateSeconds(const WorkerId& worker) const;
  /// Whether that is a measurement of this worker.
  bool IsMeasured(const WorkerId& worker) const;

 private:
  struct Load {
    std::uint64_t stage = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t limit = 0;
    std::uint64_t limit_unmeasured = 0;
    double forward_seconds = 0;  // of the forward whose backward is not reported yet (an average)
    double stay = 0;             // the least that was measured; 0: none yet
  };
  void UpdateLimit(const WorkerId& worker, Load& load) const;
  bool Admissible(const WorkerId& worker, bool repair) const;

  const std::uint64_t in_flight_max_;
  std::vector<Wiring> wiring_;  // per stage
  std::map<WorkerId, Load> loads_;
};

/// How many microbatches a worker of each stage may hold at once, as long as nothing is measured.
///
/// A microbatch occupies stage s from its forward there until its backward there, in which time the
/// stages behind it do all their work. With every replica of stages s..S-1 kept busy with one
/// microbatch in work and one waiting, stage s holds 2 * (R_s + ... + R_{S-1}) among R_s replicas.
std::vector<std::uint64_t> ComputeInFlightLimits(const std::vector<std::uint64_t>& replicas);

/// The same of a worker that is measured, so that it never waits for bytes that could have been
/// there (rule 24): what it works through, at `service` seconds each, in the time `stay` from when
/// a microbatch is drawn to when the worker is done with it, on an idle swarm; and a forward and a
/// backward that wait at each of the stages: no two computations or transfers take the same time,
/// and whoever is late leaves those behind it without work unless something waits there. (Also for
/// the last stage, whose microbatches wait as forwards only: backwards go first everywhere, so
/// that nearly all waiting is done on the way there.) Whatever lies on the way counts, computing,
/// rates and round trips. Not less than `without`, the limit without a measurement, and not more
/// than kInFlightPerStage for each of the stages, so that memory stays bounded (rule 26).
std::uint64_t ComputeInFlightLimit(double service, double stay, std::uint64_t without,
                                   std::uint64_t stages);
inline constexpr std::uint64_t kInFlightPerStage = 16;

}  // namespace swarm::protocol
