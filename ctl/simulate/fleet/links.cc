#include "ctl/simulate/fleet/links.h"

#include <algorithm>

#include "ctl/simulate/fleet/flow_network.h"

namespace swarm::ctl {

Links::Links(const Fleet& fleet) {
  names_.push_back(fleet.trainer_region);
  for (const FleetGroup& group : fleet.groups) names_.push_back(group.region);
  std::ranges::sort(names_);
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  links_.assign(names_.size() * names_.size(), {.rate = kUnlimited});
  const auto fits = [](const std::string& pattern, const std::string& name) {
    return pattern == "*" || pattern == name;
  };
  for (const FleetLink& link : fleet.links) {
    for (Region from = 0; from < names_.size(); ++from) {
      for (Region to = 0; to < names_.size(); ++to) {
        const bool there = fits(link.a, names_[from]) && fits(link.b, names_[to]);
        const bool back = fits(link.b, names_[from]) && fits(link.a, names_[to]);
        if (!there && !back) continue;
        links_[from * names_.size() + to] = {FromSeconds(link.round_trip_seconds / 2),
                                             link.rate > 0 ? link.rate : kUnlimited};
      }
    }
  }
}

Region Links::RegionOf(const std::string& name) const {
  return static_cast<Region>(std::ranges::lower_bound(names_, name) - names_.begin());
}

}  // namespace swarm::ctl
