// How long the segments of a swapped way are, and how many microbatches pass one together. Pure.
#pragma once

#include "planner/model_costs.h"
#include "planner/search.h"

namespace swarm::planner {

/// Searches what the job leaves open of the two, for the swapped plan that is worth most: the
/// memory of segments (pipeline.memory.device), for each number of layers that a worker would put
/// into one and fewer, and the microbatches that pass together (pipeline.inFlightMax), of powers of
/// two and all of a step. Layers are alike, and a worker cuts a stage by their number, so no other
/// cut is left out. The plan itself, where no other is better by more than a tie. `model`: with
/// that residency.
Plan WithBestSegments(const Plan& plan, const ModelCosts& model, const Request& request);

}  // namespace swarm::planner
