// The rule that acts at every change: the moves that raise the throughput for long enough to pay
// for the loading. Its parts are declared here for the study of state copies (ctl/simulate), which
// searches the same way and carries transfers out differently. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/balance/balance.h"

namespace swarm::protocol::balancing {

/// The orders of Balance(kEvent); `stages` is not empty.
std::vector<BalanceOrder> DecideAtChange(const std::vector<StageLoad>& stages,
                                         const BalanceModel& model);

/// The moves as orders.
std::vector<BalanceOrder> OrdersOf(const std::vector<RegionMove>& moves);

/// Whether a rate rises by more than the hysteresis.
bool Rises(double from, double to, const BalanceModel& model);

/// Whether a worker may go to the stage that is to be filled.
using MayGo = std::function<bool(const ReplicaLoad& replica)>;

/// The worker for a stage without replicas: among those that may go, the one whose move leaves the
/// weaker of the two stages strongest. A stage with a ready replica keeps one. None if no worker
/// can go.
std::optional<Hop> BestToFill(const Stages& stages, std::size_t to, const MayGo& may_go);

/// The reason for filling `hop.to`, with the stages before it.
std::string ReasonToFill(const Stages& stages, const Hop& hop);

/// Ranks workers whose transfer to a stage is worth the same: the higher goes.
using Rank = std::function<double(const ReplicaLoad& replica, std::size_t to)>;

/// The shortest row of transfers with the highest minimum of the full rates, each from where the
/// worker is in `now`; empty if none raises the minimum by more than the hysteresis. `future` is
/// `now` after all moves and joins under way: the rates of its stages count.
std::vector<Hop> FindTransfers(const Stages& now, const Stages& future, const BalanceModel& model,
                               const Rank& rank);

/// The reason for a transfer, with the full rates of the stages before it.
std::string ReasonToTransfer(const Hop& hop, const std::vector<double>& rates);

/// What transfers give and cost.
struct Worth {
  double gain = 0;  ///< microbatches a second once they are done
  double lost = 0;  ///< microbatches a second while the states are on their way
};

/// Whether transfers gain more, until the next change at one of the stages concerned, than they
/// lose while the states are loaded. `before` are the stages before the transfers.
bool Pays(const std::vector<Hop>& hops, const Worth& worth, const Stages& before,
          const BalanceModel& model);

/// Whether a stage that had a ready replica before has none after.
bool Empties(const Stages& before, const Stages& after);

}  // namespace swarm::protocol::balancing
