#include "ctl/simulate/fleet/presence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/rng.h"

namespace swarm::ctl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kHour = 3600;

/// Digits in front make the order of the names that of the numbers.
std::string Numbered(const std::string& name, std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return name + "-" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

void AddByChance(const Fleet& fleet, std::size_t index, std::uint64_t seed,
                 std::vector<Stay>& stays) {
  const FleetGroup& group = fleet.groups[index];
  for (std::uint64_t n = 0; n < group.machines.count; ++n) {
    Rng rng(MixAll(MixName(seed, group.machines.name), n));
    double begin = 0;
    for (std::uint64_t life = 0; begin < fleet.seconds; ++life) {
      const double drawn = -std::log(1 - rng.Uniform()) * kHour;
      const double end = group.machines.losses_per_hour > 0
                             ? begin + drawn / group.machines.losses_per_hour
                             : kNever;
      std::string name = Numbered(group.machines.name, n);
      if (life > 0) name += "." + std::to_string(life);
      stays.push_back({std::move(name), index, begin, end});
      begin = group.machines.return_seconds > 0 ? end + group.machines.return_seconds : kNever;
    }
  }
}

void AddByTrace(const Fleet& fleet, std::size_t index, std::vector<Stay>& stays) {
  const FleetGroup& group = fleet.groups[index];
  std::map<std::string, std::size_t> present;  // node -> its stay
  std::uint64_t numbers = 0;
  for (const TraceEvent& event : group.trace.events) {
    if (event.seconds >= fleet.seconds) break;
    for (const std::string& node : event.departures) {
      stays[present.extract(node).mapped()].end = event.seconds;
    }
    for (const std::string& node : event.joins) {
      present[node] = stays.size();
      stays.push_back({Numbered(group.machines.name, numbers++), index, event.seconds, kNever});
    }
  }
}

}  // namespace

std::vector<Stay> DrawStays(const Fleet& fleet, std::uint64_t seed) {
  std::vector<Stay> stays;
  for (std::size_t i = 0; i < fleet.groups.size(); ++i) {
    if (fleet.groups[i].trace.events.empty()) {
      AddByChance(fleet, i, seed, stays);
    } else {
      AddByTrace(fleet, i, stays);
    }
  }
  std::ranges::stable_sort(stays, {}, &Stay::begin);
  return stays;
}

}  // namespace swarm::ctl
