#include "worker/protocol/reachability/neighbours.h"

#include <algorithm>
#include <chrono>

#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Up to this size of a swarm, all members are neighbours.
constexpr std::size_t kAllUpTo = 64;
/// Beats that a worker sends per second, to all its neighbours together.
constexpr int kBeatsPerSecond = 128;
constexpr Duration kShortestInterval = milliseconds(500);
/// The trainer may have changed, or a report may be lost.
constexpr Duration kReportInterval = seconds(1);

/// Three missing beats are a silence; five are one for every neighbour.
DetectorOptions OptionsFor(Duration interval) {
  return {.period = interval,
          .floor = 3 * interval,
          .limit = 5 * interval,
          .tick = milliseconds(250),
          .watcher_pause = seconds(1)};
}

}  // namespace

Duration Neighbours::BeatInterval(std::size_t neighbours) {
  return std::max(kShortestInterval, Duration(seconds(neighbours)) / kBeatsPerSecond);
}

bool Neighbours::IsNeighbour(const Member& self, const Member& other, std::size_t members,
                             std::uint64_t stages) const {
  if (other.id == self_) return false;
  if (members <= kAllUpTo) return true;
  const std::uint64_t a = self.stage.value, b = other.stage.value;
  const std::uint64_t apart = std::max(a, b) - std::min(a, b);
  return apart <= 1 || apart + 1 == stages;
}

void Neighbours::OnRoster(const Roster& roster, std::uint64_t stages, Timepoint now) {
  const Member* self = FindMember(roster, self_);
  if (self == nullptr) return Clear();
  std::map<WorkerId, Incarnation> neighbours;
  for (const Member& member : roster.members) {
    if (IsNeighbour(*self, member, roster.members.size(), stages)) {
      neighbours.emplace(member.id, member.incarnation);
    }
  }
  const Duration interval = BeatInterval(neighbours.size());
  if (interval != interval_) {
    interval_ = interval;
    detector_ = FailureDetector(OptionsFor(interval));
    watched_.clear();
  }
  for (const auto& [id, incarnation] : watched_) {
    if (!neighbours.contains(id)) detector_.Forget(id);
  }
  for (const auto& [id, incarnation] : neighbours) {
    const auto known = watched_.find(id);
    if (known == watched_.end() || known->second != incarnation) detector_.Watch(id, now);
  }
  watched_ = std::move(neighbours);
}

void Neighbours::Clear() {
  for (const auto& [id, incarnation] : watched_) detector_.Forget(id);
  watched_.clear();
  reported_.clear();
}

Neighbours::Due Neighbours::OnTick(Timepoint now) {
  Due due;
  if (now >= next_beat_) {
    next_beat_ = now + interval_;
    for (const auto& [id, incarnation] : watched_) due.beats.push_back(id);
  }
  std::vector<WorkerId> unheard = detector_.Suspects(now);
  if (unheard != reported_ || (!unheard.empty() && now >= next_report_)) {
    next_report_ = now + kReportInterval;
    due.report = Unheard{unheard};
    reported_ = std::move(unheard);
  }
  return due;
}

}  // namespace swarm::protocol
