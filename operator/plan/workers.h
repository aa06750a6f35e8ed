// How many workers a job has, and where: counts the ends of workers, replaces them, and keeps the
// wanted number, each in its pool.
//
// Three parts work together: observed_workers.h says what is known of each worker, pools.h how many
// workers each pool shall have, and pool_scaler.h which workers are added and removed for that.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

void DecideWorkers(Draft* draft);

}  // namespace swarm::plan
