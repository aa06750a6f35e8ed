// Where the time of the workers went, by stage, as steps.jsonl says it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/prices.h"
#include "ctl/report/disturbances.h"
#include "ctl/report/run_record.h"

namespace swarm::ctl {

/// The seconds of all workers of a stage, together. All but the first are parts of the first, and
/// add up to it.
struct StageSeconds {
  double present = 0;   ///< the time of each step, times the workers that the stage had then
  double tasks = 0;     ///< forwards and backwards
  double state = 0;     ///< other work of the devices: adding gradients up, updates, snapshots
  double summing = 0;   ///< the device had no work, and a sum of the stage was being made
  double recovery = 0;  ///< the device had no work, and the step was slowed by a fault
  double waiting = 0;   ///< the rest: for microbatches, which are on their way or elsewhere
};

/// By stage; empty: the steps say nothing of stages.
std::vector<StageSeconds> WhereTimeWent(const RunRecord& record, const Disturbances& disturbances);

/// Dollars that the workers cost during the committed steps, by the prices of the manifest's pools.
/// None: a pool has no price, or a step does not say how many workers there were.
std::optional<api::DollarRange> CostOf(const RunRecord& record);

}  // namespace swarm::ctl
