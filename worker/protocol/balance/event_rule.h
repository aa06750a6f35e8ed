// The rule that acts at every change. Pure.
#pragma once

#include <vector>

#include "worker/protocol/balance/balance.h"

namespace swarm::protocol::balancing {

/// What Balance(kEvent) does; `stages` is not empty.
std::vector<BalanceOrder> DecideAtChange(const std::vector<StageLoad>& stages,
                                         const BalanceModel& model);

}  // namespace swarm::protocol::balancing
