// Making a checkpoint visible: the last thing that is done about it.
#pragma once

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/checkpoint/checkpoint.h"

namespace swarm::trainer {

/// Publishes `manifest`, of which what follows from the job (name, seed, configuration, whether it
/// has the version before) is filled in here, and removes the checkpoints that the job does not
/// keep; that those stay is no error. Nor is a manifest of that name: whoever made it said the
/// same. Errors: those of Storage.
Status PublishCheckpoint(storage::Storage& storage, const api::SwarmJob& job,
                         checkpoint::Manifest manifest);

}  // namespace swarm::trainer
