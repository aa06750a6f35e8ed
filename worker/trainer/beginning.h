// The state that a job begins with: its initial weights, or the newest checkpoint.
#pragma once

#include <string>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/protocol/ids.h"

namespace swarm::trainer {

struct Beginning {
  protocol::Generation generation;
  protocol::Version version;
  std::string checkpoint_uri;  ///< of the checkpoint's own folder; empty: the initial weights
};

/// With `resume`, the newest checkpoint in spec.checkpoint.uri, or the initial weights if there is
/// none. Errors: those of Storage; kFailedPrecondition for a checkpoint of another seed, one of
/// step mode Sync for a job in Delayed, and, without `resume`, a folder that holds checkpoints
/// already (those of this job could not be told from them).
Result<Beginning> FindBeginning(const api::SwarmJob& job, bool resume);

}  // namespace swarm::trainer
