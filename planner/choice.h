// What the planner chooses for a job with `pipeline.stages: Auto`: the fields of its manifest that
// are left open. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/format/field_error.h"
#include "api/status.h"
#include "api/swarmjob.h"
#include "planner/search.h"

namespace swarm::planner {

/// The fields that the values of a manifest leave open: those that are absent, null, or for
/// workers.replicas 0. `Auto` is taken out of the values before (api/manifest.h).
Open OpenIn(const nlohmann::json& manifest);

/// The fields that a plan decides, as far as they are open, and what it predicts.
api::PlanChoice ChoiceOf(const Plan& plan, const Open& open);

/// Writes the choice into the values of a manifest. What they say stays, and of two bounds
/// inFlightMax the lower one. Requires values that ParseManifest reads.
void FillIn(const api::PlanChoice& choice, nlohmann::json* manifest);

/// The best plan of the request, whose stages are open. Error: the job fits in no way, with what
/// would make it fit. `machines` names those of the request in words.
api::Checked<api::PlanChoice> Choose(const Request& request, const std::string& machines);

/// Workers of which the memory alone is known. They are alike, and nothing between them is slow.
struct AlikeWorkers {
  std::uint64_t count = 1;
  double memory_bytes = 0;  ///< of each
};

/// "2 workers of 5 GiB"
std::string TextOf(const AlikeWorkers& workers);

/// Chooses the number of stages, and where it matters the layers at which they are cut, residency
/// and inFlightMax: fewest stages that have room in the workers' memory and bring most; or where no
/// number has, stages that are swapped. All else stays. Requires a valid job with a model that is
/// read. Error: as Choose.
api::Checked<api::PlanChoice> ChooseForMemory(const api::SwarmJob& job,
                                              const AlikeWorkers& workers);

}  // namespace swarm::planner
