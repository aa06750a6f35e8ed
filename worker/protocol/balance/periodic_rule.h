// SWARM's rule: in each round, one worker moves from the least to the most loaded stage. Pure.
#pragma once

#include <vector>

#include "worker/protocol/balance/balance.h"

namespace swarm::protocol::balancing {

/// The orders of one round, at most one; `stages` is not empty. Load is the queue per replica, the
/// inverse of the stage's rate. The replica with the shortest queue is the fastest.
///
/// Two things are better than published: joiners count, and no worker moves if the two stages
/// would only exchange their places. If the job is to survive the loss of a region, moves that the
/// rule of regions wants come first, and it holds those that it must.
std::vector<BalanceOrder> DecideRound(const std::vector<StageLoad>& stages,
                                      const RegionRule& regions);

}  // namespace swarm::protocol::balancing
