#include "ctl/simulate/fleet/link_meters.h"

#include <algorithm>
#include <utility>

namespace swarm::ctl {

using protocol::WorkerId;

namespace {

/// As LinkMeter::kMemory: a half of it.
constexpr Duration kHalf = std::chrono::seconds(10);

}  // namespace

void LinkMeters::Age(Meter& meter, Timepoint now) {
  if (now - meter.half_begins < kHalf) return;
  // A rate counts until the connection was filled again.
  if (meter.best > 0) meter.best_before = std::exchange(meter.best, 0);
  meter.half_begins = now;
}

void LinkMeters::OnSent(const WorkerId& from, const WorkerId& to, Duration round_trip, double bytes,
                        double seconds, Timepoint now) {
  Meter& meter = meters_[from][to];
  meter.round_trip = ToSeconds(round_trip);
  Age(meter, now);
  if (seconds > 0 && seconds >= meter.round_trip) {
    meter.best = std::max(meter.best, bytes / seconds);
  }
}

std::map<WorkerId, protocol::Link> LinkMeters::Links(const WorkerId& from, Timepoint now) {
  std::map<WorkerId, protocol::Link> links;
  const auto meters = meters_.find(from);
  if (meters == meters_.end()) return links;
  for (auto& [to, meter] : meters->second) {
    Age(meter, now);
    links[to] = {meter.round_trip, std::max(meter.best, meter.best_before)};
  }
  return links;
}

void LinkMeters::Forget(const WorkerId& worker) {
  meters_.erase(worker);
  for (auto& [from, meters] : meters_) meters.erase(worker);
}

}  // namespace swarm::ctl
