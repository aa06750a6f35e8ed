// What a job's throughput would have been on a recorded fleet: the trainer's own decisions
// (worker/protocol/balance/balance.h) against a trace of departures and joins; beside them the
// study of state copies (copies.h), which the trainer does not decide. Pure; a decision knows
// nothing of the future.
//
// All workers are equally fast. The workers at the trace's beginning are ready at once, as when a
// job begins. All others load the state of a stage first. A decision takes no time.
#pragma once

#include <cstdint>
#include <vector>

#include "ctl/simulate/copies.h"
#include "ctl/simulate/trace.h"

namespace swarm::ctl {

enum class ReplayPolicy : std::uint8_t {
  kMoves,     ///< what swarm-worker does: protocol::BalancePolicy::kEvent
  kCopies,    ///< the study: kMoves, and copies of other stages' states (copy_rule.h)
  kPeriodic,  ///< SWARM's rule: protocol::BalancePolicy::kPeriodic
  kNone,      ///< no worker moves
};

struct ReplayOptions {
  std::vector<double> stage_costs = {1, 1};  ///< one a stage; work of a microbatch, relative
  ReplayPolicy policy = ReplayPolicy::kMoves;
  /// Of it, all policies but kCopies read `balance` alone. The replay measures
  /// changes_per_worker_second itself.
  CopyModel model;
  double period_seconds = 300;  ///< of the periodic rule
  double switch_seconds = 1;    ///< a worker with a complete copy is away while it switches
  std::uint64_t seed = 1;       ///< in which order simultaneous joiners are placed
};

/// Integrals are over the time in which there were workers for all stages.
struct ReplayResult {
  double seconds = 0;
  /// Throughput over the optimum: the best assignment of all living workers at each moment,
  /// newcomers included.
  double efficiency = 0;
  /// The efficiency if every move were free and instant, but joiners had to load. No policy does
  /// better.
  double attainable_efficiency = 0;
  double stage_empty_share = 0;  ///< of the time: some stage had no ready replica
  int moves = 0;                 ///< workers that changed stages
  int fetches = 0;               ///< copies begun, of which some were for the moves
  /// The moves of a swarm that needs no time for them and makes the fewest at each change.
  int least_moves = 0;
  int departures = 0;
  int joins = 0;
};

ReplayResult Replay(const Trace& trace, const ReplayOptions& options);

}  // namespace swarm::ctl
