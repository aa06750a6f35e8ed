// A picture of a simulated fleet as SVG: tokens a second and machines over time. Pure.
#pragma once

#include <string>

#include "ctl/simulate/fleet/fleet_result.h"

namespace swarm::ctl {

std::string PlotFleet(const FleetResult& result);

}  // namespace swarm::ctl
