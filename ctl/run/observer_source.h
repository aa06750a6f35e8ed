// Status from the trainer itself, over an observer's connection: what the steps file has, and the
// stages with their workers.
#pragma once

#include "ctl/run/run_command.h"

namespace swarm::ctl {

/// A StatusSourceFactory. Every step of the steps file is reported once, with the newest word about
/// the stages; between steps, what the trainer says.
Result<std::unique_ptr<StatusSource>> ObserveTrainer(const ObserverAccess& access);

}  // namespace swarm::ctl
