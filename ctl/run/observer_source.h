// The status of a job from its trainer, over an observer's connection: the steps of the steps file,
// and the stages with their workers.
#pragma once

#include "ctl/run/run_command.h"

namespace swarm::ctl {

/// A StatusSourceFactory. Reports each step of the steps file once, with the trainer's newest
/// status of the stages; between steps, it reports the trainer's status.
Result<std::unique_ptr<StatusSource>> ObserveTrainer(const ObserverAccess& access);

}  // namespace swarm::ctl
