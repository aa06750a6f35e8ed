// Delays and rates between regions, looked up by number.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/simulate/fleet/fleet.h"

namespace swarm::ctl {

/// A region of a fleet, as a number.
using Region = std::size_t;

class Links {
 public:
  explicit Links(const Fleet& fleet);

  /// The region of a group, or of the trainer.
  Region RegionOf(const std::string& name) const;
  Duration OneWay(Region from, Region to) const { return At(from, to).one_way; }
  /// The limit of one connection in bytes a second; kUnlimited: none.
  double RateMax(Region from, Region to) const { return At(from, to).rate; }

 private:
  struct Link {
    Duration one_way{};
    double rate = 0;
  };
  const Link& At(Region from, Region to) const { return links_[from * names_.size() + to]; }

  std::vector<std::string> names_;  // sorted
  std::vector<Link> links_;
};

}  // namespace swarm::ctl
