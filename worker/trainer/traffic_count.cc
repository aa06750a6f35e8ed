#include "worker/trainer/traffic_count.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace swarm::trainer {

using protocol::WorkerId;

namespace {

/// Of the rate: a step of a large job takes many seconds.
constexpr Duration kMemory = std::chrono::minutes(1);

/// The part of what was recent that still is.
double Kept(Duration passed) { return std::exp(-ToSeconds(passed) / ToSeconds(kMemory)); }

}  // namespace

void TrafficCount::Watch(const WorkerId& worker, const std::string& region) {
  workers_[worker].region = region;
  if (!region.empty() && regions_.size() < kRegionsMax) regions_.insert(region);
}

void TrafficCount::OnBeat(const WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || !regions_.contains(found->second.region)) return;
  Watched& watched = found->second;
  for (const protocol::Heartbeat::Exchanged& each : beat.exchanged) {
    if (each.region == watched.region || !regions_.contains(each.region)) continue;
    std::uint64_t& before = watched.exchanged[each.region];
    // Fewer bytes than before: another process, which has counted from its start.
    const std::uint64_t grown = each.bytes < before ? each.bytes : each.bytes - before;
    before = each.bytes;
    if (watched.beaten && grown > 0) Add(watched.region, each.region, grown, now);
  }
  watched.beaten = true;
}

void TrafficCount::Add(const std::string& a, const std::string& b, std::uint64_t bytes,
                       Timepoint now) {
  Pair& pair = pairs_[std::minmax(a, b)];
  pair.recent = pair.recent * Kept(now - pair.time) + static_cast<double>(bytes);
  pair.bytes += bytes;
  pair.time = now;
}

std::vector<protocol::RegionTraffic> TrafficCount::Read(Timepoint now) const {
  std::vector<protocol::RegionTraffic> traffic;
  for (const auto& [regions, pair] : pairs_) {
    traffic.push_back({regions.first, regions.second, pair.bytes,
                       pair.recent * Kept(now - pair.time) / ToSeconds(kMemory)});
  }
  return traffic;
}

}  // namespace swarm::trainer
