#include "worker/enrol/failures.h"

#include <algorithm>

#include "base/short_time.h"

namespace swarm::enrol {

std::vector<Timepoint>& Failures::Of(const std::string& source, Timepoint now) {
  for (auto& [each, times] : times_) {
    std::erase_if(times, [&](Timepoint at) { return now - at >= limits_.window; });
  }
  std::erase_if(times_, [](const auto& entry) { return entry.second.empty(); });
  const bool crowded = times_.size() >= limits_.sources_max && !times_.contains(source);
  return times_[crowded ? std::string() : source];
}

Status Failures::Admit(const std::string& source, Timepoint now) {
  const std::vector<Timepoint>& times = Of(source, now);
  if (times.size() < limits_.failures_max) return Status();
  const Duration wait = times.front() + limits_.window - now;
  return ResourceExhausted("too many failed attempts to join from " + source + "; try again in " +
                           ShortTime(ToSeconds(wait)));
}

void Failures::Count(const std::string& source, Timepoint now) { Of(source, now).push_back(now); }

}  // namespace swarm::enrol
