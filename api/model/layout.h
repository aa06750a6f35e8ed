// How many workers serve each stage at the start of a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::api {

/// The replicas of each stage, at least one each. Pure.
///
/// `workers` is the flag of `swarmctl run`. "" means the job's spec.workers.replicas in total, a
/// number is the total, and "0=2,1=3" gives the replicas of single stages; the other stages get
/// spec.pipeline.minReplicasPerStage. A total is spread evenly, and the first stages get the
/// remainder.
///
/// Errors: kInvalidArgument, the text has another form, names a stage that does not exist, or gives
/// fewer than one worker per stage.
Result<std::vector<std::uint64_t>> ComputeReplicas(const SwarmJob& job, std::string_view workers);

/// "2,1,3", the form of the flag --layout of swarm-worker.
std::string LayoutText(const std::vector<std::uint64_t>& layout);

}  // namespace swarm::api
