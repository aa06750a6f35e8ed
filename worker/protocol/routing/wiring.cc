#include "worker/protocol/routing/wiring.h"

#include <algorithm>

namespace swarm::protocol {
namespace {
constexpr double kNewest = 0.1;
}

void Wiring::SetMembers(const std::vector<WorkerId>& members) {
  double least = clock_;
  for (const auto& [id, entry] : entries_) least = std::min(least, entry.virtual_time);
  Entries next;
  open_.clear();
  measured_seconds_ = 0;
  measured_ = 0;
  for (const WorkerId& id : members) {
    const auto known = entries_.find(id);
    const auto member = next.emplace(
        id, known != entries_.end() ? known->second : Entry{.virtual_time = least, .tie = rng_()});
    const Entry& entry = member.first->second;
    if (entry.open) open_.insert(KeyOf(*member.first));
    if (entry.weight > 0) {
      measured_seconds_ += entry.seconds();
      ++measured_;
    }
  }
  entries_ = std::move(next);
}

std::vector<WorkerId> Wiring::Members() const {
  std::vector<WorkerId> members;
  for (const auto& [id, entry] : entries_) members.push_back(id);
  return members;
}

void Wiring::SetOpen(const WorkerId& worker, bool open) {
  const auto it = entries_.find(worker);
  if (it == entries_.end() || it->second.open == open) return;
  it->second.open = open;
  if (open) {
    open_.insert(KeyOf(*it));
  } else {
    open_.erase(KeyOf(*it));
  }
}

std::optional<WorkerId> Wiring::Pick(const Predicate& wanted) {
  const auto best = std::find_if(open_.begin(), open_.end(),
                                 [&](const auto& key) { return wanted(std::get<2>(key)); });
  if (best == open_.end()) return std::nullopt;
  return Charge(std::get<2>(*best));
}

std::optional<WorkerId> Wiring::PickAmong(const std::vector<WorkerId>& few,
                                          const Predicate& wanted) {
  const Entries::value_type* best = nullptr;
  for (const WorkerId& id : few) {
    const auto entry = entries_.find(id);
    if (entry == entries_.end() || !entry->second.open || !wanted(id)) continue;
    if (best == nullptr || KeyOf(*entry) < KeyOf(*best)) best = &*entry;
  }
  if (best == nullptr) return std::nullopt;
  return Charge(best->first);
}

std::optional<WorkerId> Wiring::PickOfAll(const Predicate& wanted) {
  const Entries::value_type* best = nullptr;
  for (const auto& entry : entries_) {
    if (!wanted(entry.first)) continue;
    if (best == nullptr || KeyOf(entry) < KeyOf(*best)) best = &entry;
  }
  if (best == nullptr) return std::nullopt;
  return Charge(best->first);
}

WorkerId Wiring::Charge(const WorkerId& worker) {
  const auto it = entries_.find(worker);
  Entry& entry = it->second;
  if (entry.open) open_.erase(KeyOf(*it));
  const double charge = EstimateSeconds(worker);
  // A replica that was not admissible for a while must not get a burst when it is again.
  entry.virtual_time = std::max(entry.virtual_time, clock_ - charge);
  clock_ = std::max(clock_, entry.virtual_time);
  entry.virtual_time += charge;
  entry.tie = rng_();
  if (entry.open) open_.insert(KeyOf(*it));
  return it->first;
}

void Wiring::Measure(const WorkerId& worker, double seconds) {
  const auto it = entries_.find(worker);
  if (it == entries_.end() || !(seconds >= 0)) return;
  Entry& entry = it->second;
  if (entry.weight > 0) {
    measured_seconds_ -= entry.seconds();
  } else {
    ++measured_;
  }
  entry.average = (1 - kNewest) * entry.average + kNewest * seconds;
  entry.weight = (1 - kNewest) * entry.weight + kNewest;
  measured_seconds_ += entry.seconds();
}

double Wiring::EstimateSeconds(const WorkerId& worker) const {
  const auto it = entries_.find(worker);
  if (it != entries_.end() && it->second.weight > 0) return it->second.seconds();
  return measured_ > 0 ? MeanSeconds() : 1.0;
}

double Wiring::MeanSeconds() const {
  return measured_ > 0 ? measured_seconds_ / static_cast<double>(measured_) : 0;
}

bool Wiring::IsMeasured(const WorkerId& worker) const {
  const auto it = entries_.find(worker);
  return it != entries_.end() && it->second.weight > 0;
}

}  // namespace swarm::protocol
