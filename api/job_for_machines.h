// What a machine that becomes a worker is told of the job beforehand: enough to measure itself by
// the model, and to see whether it has room for a stage. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "api/swarmjob.h"

namespace swarm::api {

/// No text is longer: a message of enrolment (64 KiB) has room for it beside certificates.
inline constexpr std::size_t kJobForMachinesMax = 32 << 10;

/// The job as JSON that FromJson reads, without what a worker does not compute with: places of
/// models, data and checkpoints, pods, names of Secrets, prices. Its data are a name without
/// meaning. It is a valid manifest, except that a Pretrained model has a config and no uri.
///
/// Requires a valid job, or one whose `model.config` was read from the folder of `model.uri`.
/// Empty: that was not read, or the text would be too long.
std::string JobForMachines(const SwarmJob& job);

}  // namespace swarm::api
