#include "operator/satellite/sweep.h"

#include <algorithm>

namespace swarm::satellite {

void Sweep::Hear(const std::set<std::string>& job_uids, Timepoint now) {
  jobs_ = job_uids;
  heard_ = now;
}

std::set<std::string> Sweep::Gone(const std::set<std::string>& outposts, Timepoint now) {
  if (now - heard_ >= options_.orphaned) return outposts;
  std::erase_if(absent_, [&](const auto& each) {
    return !outposts.contains(each.first) || (jobs_ && jobs_->contains(each.first));
  });
  std::set<std::string> gone;
  for (const std::string& job : outposts) {
    if (!jobs_ || jobs_->contains(job)) continue;
    // What home said before `heard_` counts, not how long it has been silent since.
    const Timepoint since = absent_.try_emplace(job, now).first->second;
    if (heard_ - since >= options_.settle) gone.insert(job);
  }
  return gone;
}

}  // namespace swarm::satellite
