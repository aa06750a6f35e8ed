// Tokens a second over the rate of the lines as a picture: SVG that names no address, for light and
// dark pages. Pure.
#pragma once

#include <span>
#include <string>

#include "planner/link_study.h"

namespace swarm::ctl {

/// A curve for each manner, named at its end, with a dot at each of the `rates` that were asked
/// for; dashed where stages are swapped. A strip above has the color of the curve that leads.
/// `job`: a name as a manifest has it. Requires curves.
std::string PlotLinks(const planner::LinkStudy& study, std::span<const double> rates,
                      const std::string& job);

}  // namespace swarm::ctl
