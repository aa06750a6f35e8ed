// What `swarmctl simulate --fleet` prints: a table for people, or JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "ctl/simulate/fleet/fleet_result.h"

namespace swarm::ctl {

void PrintFleetTable(const FleetResult& result, std::ostream& out);

/// All but the field `measured` is the same for one fleet and seed.
nlohmann::json FleetJson(const FleetResult& result);

/// The trainer's events as lines of JSON.
std::string FleetEvents(const FleetResult& result);

}  // namespace swarm::ctl
