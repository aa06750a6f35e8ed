// Connections to trainers over the network.
#pragma once

#include <string>

#include "operator/controller/trainer_links.h"

namespace swarm::controller {

/// What TrainerLinks connects with. One thread serves all connections, beside those of gRPC.
/// `self` tells this operator from others: the name of its pod.
TrainerLinks::Connect MakeTrainerDialer(const std::string& self);

}  // namespace swarm::controller
