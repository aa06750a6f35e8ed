// swarmctl plan --link-rates: which rates of lines, and what is said about them. Pure.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/link_study.h"

namespace swarm::ctl {

/// Mb/s, where the user names none.
inline constexpr const char* kDefaultLinkRates = "10,20,50,100,200,500,1000";

/// Reads "10,50,200.5" (Mb/s): bytes a second, ascending, each once.
Result<std::vector<double>> ParseLinkRates(std::string_view text);

/// "Sync pipeline"
std::string MannerText(planner::Manner manner);

/// "6 machines in 3 stages, Int8, swapped"
std::string PlanText(const planner::Plan& plan);

/// Of bytes a second: "74.3", "1234"; three digits or all before the point.
std::string MbpsText(double rate);

/// A sentence for each manner that leads somewhere: "from 74 Mb/s on Local (6 machines)".
std::vector<std::string> LeadTexts(const planner::LinkStudy& study);

/// A row for each of the `rates`, which were asked for, and who overtakes whom. Requires curves.
void PrintLinks(const planner::LinkStudy& study, std::span<const double> rates, std::ostream& out);

/// The same as data. `request` is that of the study.
nlohmann::json LinksJson(const planner::LinkStudy& study, std::span<const double> rates,
                         const planner::Request& request);

}  // namespace swarm::ctl
