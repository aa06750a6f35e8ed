// What `swarmctl plan` prints: a table for people, or JSON; and a plan as a part of a manifest.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "planner/search.h"

namespace swarm::ctl {

/// A megabit in bytes.
inline constexpr double kMegabit = 1e6 / 8;

/// The fields of a manifest that the plan decides.
nlohmann::json PlanFragment(const planner::Plan& plan, const planner::Open& open);

/// Requires a plan.
void PrintPlans(const planner::Plans& plans, const planner::Request& request, std::ostream& out);

/// What is predicted, and its fields of the manifest.
nlohmann::json PlanJson(const planner::Plan& plan, const planner::Request& request);

nlohmann::json PlansJson(const planner::Plans& plans, const planner::Request& request);

}  // namespace swarm::ctl
