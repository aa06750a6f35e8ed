// How many workers serve each stage at the start of a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::api {

/// Replicas per stage, each at least one. Pure.
///
/// `workers` is the flag of `swarmctl run`: "" takes spec.workers.replicas of the job, a number is
/// the total, "0=2,1=3" names replicas of stages (a stage that is not named gets
/// spec.pipeline.minReplicasPerStage). A total is spread evenly; what is left over goes to the
/// first stages.
///
/// Errors: kInvalidArgument for text of another form, a stage that the job does not have, and too
/// few workers for one a stage.
Result<std::vector<std::uint64_t>> ComputeReplicas(const SwarmJob& job, std::string_view workers);

/// "2,1,3", the form in which swarm-worker takes a layout.
std::string LayoutText(const std::vector<std::uint64_t>& layout);

}  // namespace swarm::api
