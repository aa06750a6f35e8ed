#include "ctl/simulate/fleet/links.h"

#include <algorithm>

#include "ctl/simulate/fleet/flow_network.h"

namespace swarm::ctl {

Links::Links(const Fleet& fleet) {
  names_.push_back(fleet.trainer_region);
  for (const FleetGroup& group : fleet.groups) names_.push_back(group.machines.region);
  std::ranges::sort(names_);
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  for (const std::string& from : names_) {
    for (const std::string& to : names_) {
      const planner::Link link = planner::LinkOf(fleet.links, from, to);
      links_.push_back(
          {FromSeconds(link.round_trip_seconds / 2), link.rate > 0 ? link.rate : kUnlimited});
    }
  }
}

Region Links::RegionOf(const std::string& name) const {
  return static_cast<Region>(std::ranges::lower_bound(names_, name) - names_.begin());
}

}  // namespace swarm::ctl
