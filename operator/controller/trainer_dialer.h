// Opens connections to trainers over the network.
#pragma once

#include <string>

#include "operator/controller/trainer_links.h"

namespace swarm::controller {

/// The Connect function for TrainerLinks. One thread serves all connections, in addition to the
/// threads of gRPC. `self` tells this operator from others: it is the name of its pod.
TrainerLinks::Connect MakeTrainerDialer(const std::string& self);

}  // namespace swarm::controller
