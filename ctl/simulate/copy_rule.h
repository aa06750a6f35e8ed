// The rule of the study of state copies (copies.h): what workers would do at every change if they
// had memory for states of other stages. Pure.
#pragma once

#include <vector>

#include "ctl/simulate/copies.h"

namespace swarm::ctl {

/// The orders after a change. `swarm` is the swarm after it; at least one stage.
///
/// - Switches that raise the throughput are made at once.
/// - Transfers that pay, as for protocol::BalancePolicy::kEvent, are made by fetching a copy first;
///   by a move where there is no memory for one.
/// - Workers of stages that give more than the job can use keep copies of the states of stages that
///   could not bear a departure. A copy whose upkeep would slow the bottleneck is dropped.
///
/// No order lowers the predicted throughput. With copies_per_worker = 0 and no copies, the orders
/// are those of protocol::Balance(kEvent) if `copy_drag` is its `donor_drag`.
std::vector<CopyOrder> DecideWithCopies(const CopySwarm& swarm, const CopyModel& model);

/// The part that serves stages without replicas: by a switch of a worker that has the state, else
/// by a move.
std::vector<CopyOrder> FillEmptied(const CopySwarm& swarm, const CopyModel& model);

}  // namespace swarm::ctl
