// Whether a machine has room for the stages of a job. Pure.
#pragma once

#include <string>

#include "api/swarmjob.h"
#include "planner/fleet.h"

namespace swarm::ctl {

/// Why a worker with the memory of `machine` cannot serve every stage of the job, in words: what
/// the stage that needs most needs at least, by the costs of a plan, and what is there. Home gives
/// a worker any stage, so each must fit. Empty: each does, or nobody can say it beforehand: the
/// memory is not known, or stages are swapped, whose segments are cut for the memory.
///
/// Requires a valid job with a model that is read.
std::string WhyNoRoom(const api::SwarmJob& job, const planner::Machines& machine);

}  // namespace swarm::ctl
