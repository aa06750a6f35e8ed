// Connections to trainers over the network.
#pragma once

#include <string>

#include "operator/controller/trainer_links.h"

namespace swarm::controller {

struct DialerOptions {
  std::string self;  ///< tells this operator from others: the name of its pod
  std::string trust_domain = "swarmjob.local";
};

/// What TrainerLinks connects with. One thread serves all connections, beside those of gRPC.
TrainerLinks::Connect MakeTrainerDialer(const DialerOptions& options);

}  // namespace swarm::controller
