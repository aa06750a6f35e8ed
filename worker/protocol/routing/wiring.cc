#include "worker/protocol/routing/wiring.h"

#include <algorithm>

namespace swarm::protocol {
namespace {
constexpr double kNewest = 0.1;
}

void Wiring::SetMembers(const std::vector<WorkerId>& members) {
  double least = clock_;
  for (const auto& [id, entry] : entries_) least = std::min(least, entry.virtual_time);
  std::map<WorkerId, Entry> next;
  for (const WorkerId& id : members) {
    const auto known = entries_.find(id);
    next[id] = known != entries_.end() ? known->second : Entry{.virtual_time = least};
  }
  entries_ = std::move(next);
}

std::optional<WorkerId> Wiring::Pick(const std::function<bool(const WorkerId&)>& admissible) {
  auto best = entries_.end();
  std::uint64_t equals = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!admissible(it->first)) continue;
    if (best == entries_.end() || it->second.virtual_time < best->second.virtual_time) {
      best = it;
      equals = 1;
    } else if (it->second.virtual_time == best->second.virtual_time && rng_.Below(++equals) == 0) {
      best = it;
    }
  }
  if (best == entries_.end()) return std::nullopt;
  const double charge = EstimateSeconds(best->first);
  // A replica that was not admissible for a while must not get a burst when it is again.
  double& time = best->second.virtual_time;
  time = std::max(time, clock_ - charge);
  clock_ = std::max(clock_, time);
  time += charge;
  return best->first;
}

void Wiring::Measure(const WorkerId& worker, double seconds) {
  const auto it = entries_.find(worker);
  if (it == entries_.end() || !(seconds >= 0)) return;
  Entry& entry = it->second;
  entry.average = (1 - kNewest) * entry.average + kNewest * seconds;
  entry.weight = (1 - kNewest) * entry.weight + kNewest;
}

double Wiring::EstimateSeconds(const WorkerId& worker) const {
  const auto it = entries_.find(worker);
  if (it != entries_.end() && it->second.weight > 0) return it->second.average / it->second.weight;
  double sum = 0;
  int measured = 0;
  for (const auto& [id, entry] : entries_) {
    if (entry.weight == 0) continue;
    sum += entry.average / entry.weight;
    ++measured;
  }
  return measured > 0 ? sum / measured : 1.0;
}

bool Wiring::IsMeasured(const WorkerId& worker) const {
  const auto it = entries_.find(worker);
  return it != entries_.end() && it->second.weight > 0;
}

}  // namespace swarm::protocol
