// swarm-worker --role=trainer.
#pragma once

#include "base/signals.h"
#include "worker/flags/flags.h"

namespace swarm::roles {

/// Runs the trainer to the end of the job. The first signal lets it finish the step and write a
/// checkpoint. Returns the exit code of the program (base/exit.h).
int RunTrainer(const WorkerFlags& flags, Signals& signals);

}  // namespace swarm::roles
