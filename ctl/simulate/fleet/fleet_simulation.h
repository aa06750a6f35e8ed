// Trains a job on a fleet in virtual time. Coordinator, router, balance and replicas are those of
// worker/protocol; device, network and storage are models (device.h, flow_network.h, sums.h).
//
// Not modelled: processor time of workers beside the device (encoding, summing, hashing), the
// trainer's own line and processor, memory, packets, pairs that do not reach each other, other
// trainers. The trainer's processor time is measured instead (TrainerLoad).
#pragma once

#include <cstdint>

#include "ctl/simulate/fleet/fleet.h"
#include "ctl/simulate/fleet/fleet_result.h"
#include "ctl/simulate/fleet/fleet_trainer.h"

namespace swarm::ctl {

/// Requires a fleet without errors (Check). All but what is measured is a function of fleet and
/// seed. `stopwatch` may be empty.
FleetResult SimulateFleet(const Fleet& fleet, std::uint64_t seed,
                          const FleetTrainer::Stopwatch& stopwatch);

}  // namespace swarm::ctl
