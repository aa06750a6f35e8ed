// Decides which worker serves which stage as workers come and go: the stage that a newcomer joins,
// and the workers that move to another stage. Each order states its reason.
//
// A move needs the state of the new stage (weights, optimizer). Loading it takes long, and a worker
// has memory for one state. So a move is a leave and a join: the worker serves no stage meanwhile.
//
// Regions (regions.h) decide before the load where the job is to survive the loss of one, and else
// among what is equally good for the load.
//
// Pure: the same functions serve the trainer, the operator and the replay of traces. Times are in
// seconds. Among equals, the lower stage wins, then the lesser worker id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/protocol/balance/regions.h"
#include "worker/protocol/balance/stage_rates.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// What a move costs, and how long its gain can be expected to last.
struct BalanceModel {
  double state_load_seconds = 60;  ///< to fetch the state of a stage
  /// Joins and departures per worker and second, as measured (Churn).
  double changes_per_worker_second = 0;
  double donor_drag = 0.05;  ///< share of its rate that a worker gives to send a state to another
  double min_gain = 0.02;    ///< hysteresis: a bottleneck must rise by more than this share
  RegionRule regions = {};
};

/// The worker leaves `from` at once, loads the state of `to`, and joins there. A list of orders is
/// carried out in its order. Then no stage is ever without a ready replica because of them.
struct BalanceOrder {
  WorkerId worker;
  StageIndex from;
  StageIndex to;
  std::string reason;  ///< for people: "stage 3 would limit the job at 2/s, stage 0 has 4/s"
};

enum class BalancePolicy : std::uint8_t {
  kNone,      ///< no worker moves; newcomers are still placed
  kPeriodic,  ///< SWARM's rule (arXiv 2301.11913, 3.2): one worker a round, least to most loaded
  kEvent,     ///< at every change: the moves that pay
};

enum class BalanceTrigger : std::uint8_t {
  kChange,  ///< a worker departed, joined, became ready, or changed its speed
  kRound,   ///< a period is over
};

/// The policy's orders on the trigger. `stages` are the stages after the event; at least one.
std::vector<BalanceOrder> Balance(BalancePolicy policy, BalanceTrigger trigger,
                                  const std::vector<StageLoad>& stages, const BalanceModel& model);

/// The stage that a newcomer should join: the one with the least rate once its joiners are ready.
/// `stages` is not empty.
StageIndex PlaceJoiner(const std::vector<StageLoad>& stages);

/// The same, where workers may be in several regions. If the job is to survive the loss of one, a
/// stage without workers goes first, then one that is in another region alone. Else, of the stages
/// that are as slow as the slowest but for the hysteresis, the one with which the fewest bytes
/// cross.
StageIndex PlaceJoiner(const std::vector<StageLoad>& stages, const std::string& region,
                       const BalanceModel& model);

/// Sends a worker to each stage that has neither a replica nor a joiner, from the stage that can
/// best spare one. Part of Balance(kEvent); useful alone while rates cannot be trusted. If the job
/// is to survive the loss of a region, a worker without which its stage would be in one region goes
/// last.
std::vector<BalanceOrder> FillEmptied(const std::vector<StageLoad>& stages,
                                      const RegionRule& rule = {});

/// Carries out an order on values: the worker is a joiner of `order.to` afterwards. Requires that
/// it is at `order.from`.
void Apply(const BalanceOrder& order, std::vector<StageLoad>* stages);

/// Measures how often membership changes, for changes_per_worker_second.
class Churn {
 public:
  void Observe(double worker_seconds, double changes) {
    worker_seconds_ += worker_seconds;
    changes_ += changes;
  }
  /// Begins at one change per worker and hour, which weighs as much as ten hours of one worker.
  double PerWorkerSecond() const { return (changes_ + 10) / (worker_seconds_ + 36000); }

 private:
  double worker_seconds_ = 0;
  double changes_ = 0;
};

}  // namespace swarm::protocol
