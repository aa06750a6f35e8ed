// What the workers of different regions exchange, and what that costs. Pure.
//
// Each trainer counts bytes from its own start, and the status says how many there were before. So
// no byte counts twice, whichever operator counts, and the sums never fall. They lack what was
// exchanged while there was no trainer, and what the last one told nobody before it ended.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Brings status.traffic, and its rate in status.cost, to what the trainer says. Returns the
/// dollars that it has added. A changed price holds from the count before.
double CountTraffic(Draft* draft);

}  // namespace swarm::plan
