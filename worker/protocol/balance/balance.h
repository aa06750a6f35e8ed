// Who serves which stage, as workers come and go: which stage a newcomer joins, who moves, who
// keeps a second state at hand so as to move without delay; each with its reason in words.
//
// The pipeline is as fast as its slowest stage: throughput = min over stages of the sum of the
// rates of its ready replicas. A move needs the state of the new stage (weights, optimizer), which
// takes long. So a worker fetches a *copy* of it into host memory while it goes on serving its own
// stage, and *switches* when the copy is complete; its old state then stays with it as a copy. The
// price is memory for two states. Whoever has none to spare (copies_per_worker = 0) moves by
// leaving first. A complete copy is kept current like a joiner's state, by replaying each step's
// reduced gradients; that is what `copy_drag` charges for.
//
// Pure: the same functions serve the trainer, the simulator and the operator. Time is in seconds,
// rates are in microbatches a second. Ties go to the lower stage, then to the lesser worker id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// The state of another stage, held by a worker besides that of the stage it serves.
struct Copy {
  StageIndex stage;
  double seconds_left = 0;  ///< until it is complete; 0: complete, and kept current
};

/// A worker at the stage it serves, or will serve once it has loaded the state (a joiner).
struct ReplicaLoad {
  WorkerId worker;
  double rate = 0;  ///< at this stage, when ready and without copies
  bool ready = false;
  std::vector<Copy> copies;
};

/// A stage and everyone who serves or joins it. Stages are named by their place in a vector.
struct StageLoad {
  double cost = 1;  ///< work of a microbatch relative to other stages: rates scale with its inverse
  std::vector<ReplicaLoad> replicas;
};

/// What a decision costs and what it may count on.
struct BalanceModel {
  double state_load_seconds = 60;  ///< to fetch the state of a stage
  /// Joins and losses per worker and second, as measured (Churn): how long a gain may last.
  double changes_per_worker_second = 0;
  double copy_drag = 0.05;    ///< share of its rate that a worker loses with each copy it has
  double min_gain = 0.02;     ///< hysteresis: a bottleneck must rise by more than this share
  int copies_per_worker = 2;  ///< 0: no memory for a second state
};

enum class BalanceAction : std::uint8_t {
  kSwitch,  ///< has a complete copy of `to`: serves it from now on, its old state is its copy
  kFetch,   ///< goes on serving `from`, fetches a copy of `to`
  kDrop,    ///< goes on serving `from`, frees its copy of `to`
  kMove,    ///< leaves `from` at once, loads the state of `to`, joins there
};

/// One thing to do. A list of them is to be done in its order: then no stage is ever without a
/// ready replica on their account.
struct BalanceOrder {
  BalanceAction action = BalanceAction::kSwitch;
  WorkerId worker;
  StageIndex from;
  StageIndex to;
  std::string reason;  ///< for people: "stage 3 limits the job at 2/s; stage 0 has 4/s"
};

enum class BalancePolicy : std::uint8_t {
  kNone,      ///< nobody moves; newcomers are still placed
  kPeriodic,  ///< SWARM's rule (arXiv 2301.11913, 3.2): one worker a round, least to most loaded
  kEvent,     ///< at every change: switch, repair, and keep copies against the next loss
};

enum class BalanceTrigger : std::uint8_t {
  kChange,  ///< someone was lost, joined, became ready, has completed a copy, or has changed speed
  kRound,   ///< a period is over
};

/// What the policy does on the trigger. `stages` is the swarm after the event; at least one.
std::vector<BalanceOrder> Balance(BalancePolicy policy, BalanceTrigger trigger,
                                  const std::vector<StageLoad>& stages, const BalanceModel& model);

/// The stage a newcomer should join: the one with the least throughput once all who are loading its
/// state are ready. `stages` is not empty.
StageIndex PlaceJoiner(const std::vector<StageLoad>& stages);

/// Gives each stage that has no replica, nor anyone on the way, the best candidate from the stage
/// that can best spare one: a kSwitch by someone who has the state, else a kMove. Part of
/// Balance(kEvent).
std::vector<BalanceOrder> FillEmptied(const std::vector<StageLoad>& stages,
                                      const BalanceModel& model);

/// Microbatches a second through all stages, by the ready replicas, with the drag of their copies.
double Throughput(const std::vector<StageLoad>& stages, const BalanceModel& model);

/// The same without drag and once all under way is done: joiners are ready, copies complete, and
/// the switches that pay are made. Nothing that Balance(kEvent) orders makes it less, and each
/// repair raises it by more than min_gain.
double PredictedThroughput(const std::vector<StageLoad>& stages, const BalanceModel& model);

/// Carries out an order as the swarm would, as far as the values go: a kFetch adds a copy with all
/// its loading ahead, a kMove a replica that is not ready. Requires that the order fits.
void Apply(const BalanceOrder& order, std::vector<StageLoad>* stages, const BalanceModel& model);

/// "Switch", "Fetch", "Drop", "Move".
std::string_view ActionName(BalanceAction action);

/// Measures how often membership changes, for changes_per_worker_second.
class Churn {
 public:
  void Observe(double worker_seconds, double changes) {
    worker_seconds_ += worker_seconds;
    changes_ += changes;
  }
  /// Before anything was seen: one change per worker and hour, weighed as ten hours of one worker.
  double PerWorkerSecond() const { return (changes_ + 10) / (worker_seconds_ + 36000); }

 private:
  double worker_seconds_ = 0;
  double changes_ = 0;
};

}  // namespace swarm::protocol
