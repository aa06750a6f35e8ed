// What `pipeline.stages: Auto` is on this machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/format/field_error.h"
#include "planner/fleet.h"

namespace swarm::ctl {

struct StagesChoice {
  std::uint64_t workers = 1;  ///< processes, each with a part of the memory
  double memory_bytes = 0;    ///< of the machine
};

/// Sets the number of stages, and where it matters the layers at which they are cut,
/// pipeline.residency and pipeline.inFlightMax: fewest stages that have room in the workers' memory
/// and bring most; or where no number has, stages that are swapped. `said` tells it in a line.
/// Errors: those of the manifest; the job fits in no way (with what would make it fit).
api::Checked<nlohmann::json> ChooseStages(nlohmann::json manifest, const StagesChoice& choice,
                                          std::string* said);

}  // namespace swarm::ctl
