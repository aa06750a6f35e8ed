// What a profile shows, in words, and what to do about it. Pure.
#pragma once

#include <string>
#include <vector>

#include "ctl/profile/summary.h"

namespace swarm::ctl {

struct Finding {
  std::string what;
  std::string advice;
};

/// What costs the job the most time, the slowest stage first. None: the workers compute.
std::vector<Finding> FindWhatCosts(const ProfileSummary& summary);

/// A table of the stages, the slowest layer, what crosses boundaries, and the findings.
std::string ToText(const ProfileSummary& summary);

}  // namespace swarm::ctl
