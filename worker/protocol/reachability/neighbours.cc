#include "worker/protocol/reachability/neighbours.h"

#include <algorithm>
#include <chrono>

#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Beats that a worker sends per second, to all its neighbours together.
constexpr int kBeatsPerSecond = 128;
constexpr Duration kShortestInterval = milliseconds(500);
/// In a large swarm one broken pair of many thousands costs less than beats twice a second. All
/// workers together send no more than the neighbours of so many would in a second.
constexpr int kBeatingInASecond = 128;
constexpr Duration kMeshInterval = seconds(1);
/// In a large swarm many workers begin at once to make connections to many others, which takes
/// turns: for each of them.
constexpr Duration kConnecting = seconds(1);
/// A worker that has heard less than half of its neighbours so far blames none for so long: it may
/// be the worker itself that is slow, and neighbours that are not hear most of theirs, and blame
/// it.
constexpr Duration kConnectingMax = seconds(300);
/// Of one that is no neighbour.
constexpr Duration kExchangeMax = seconds(60);
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

bool CarriesMicrobatch(const Message& message) {
  return std::holds_alternative<Forward>(message) || std::holds_alternative<Backward>(message);
}

}  // namespace

Duration Neighbours::BeatInterval(std::size_t neighbours, std::size_t members, bool mesh) {
  const Duration interval = Duration(seconds(neighbours)) / kBeatsPerSecond;
  if (!mesh) return std::max(kShortestInterval, interval);
  return std::max({kMeshInterval, interval, Duration(seconds(members)) / kBeatingInASecond});
}

std::map<WorkerId, Incarnation> Neighbours::Find(const Roster& roster, const Member& self,
                                                 std::uint64_t stages, bool tied) const {
  const bool all = roster.members.size() <= mesh_.all_up_to;
  const std::uint64_t stage = self.stage.value;
  std::map<WorkerId, Incarnation> neighbours;
  std::map<std::uint64_t, std::vector<WorkerId>> around;  // the stages of the mesh
  std::vector<PlacedMember> replicas;                     // of the own stage
  std::vector<PlacedMember> ends;                         // the stages of a sum of two
  for (const Member& member : roster.members) {
    const std::uint64_t other = member.stage.value;
    if (all) {
      if (member.id != self_) neighbours.emplace(member.id, member.incarnation);
      continue;
    }
    if (other <= stage + 1 && stage <= other + 1) around[other].push_back(member.id);
    if (other == stage) replicas.push_back({member.id, member.pod, member.region});
    if (tied && (other == 0 || other + 1 == stages)) {
      ends.push_back({member.id, member.pod, member.region});
    }
  }
  const auto add = [&](const std::vector<WorkerId>& workers) {
    for (const WorkerId& id : workers) {
      neighbours.emplace(id, FindMember(roster, id)->incarnation);
    }
  };
  if (!replicas.empty()) add(PeersInSum(replicas));
  for (const auto& [other, workers] : around) {
    if (other == stage) continue;
    const auto near =
        DrawNeighbourhood(around[std::min(stage, other)], around[std::max(stage, other)], mesh_);
    add(near.empty() ? workers : near.at(self_));
  }
  if (std::ranges::find(ends, self_, &PlacedMember::id) != ends.end()) add(PeersInSum(ends));
  return neighbours;
}

std::vector<WorkerId> Neighbours::PeersInSum(const std::vector<PlacedMember>& participants) const {
  const auto [seats, rows, regions] = SeatByPlace(participants, flat_reduce_max_);
  const ReduceGrid grid(seats.size(), rows, regions);
  const auto self = static_cast<std::size_t>(std::ranges::find(seats, self_) - seats.begin());
  std::vector<WorkerId> peers;
  for (const ReduceGrid::Seat seat : grid.PeersOf(self)) peers.push_back(seats[seat]);
  return peers;
}

Neighbours::Change Neighbours::OnRoster(const Roster& roster, std::uint64_t stages, bool tied,
                                        Timepoint now) {
  Change change;
  const Member* self = FindMember(roster, self_);
  std::map<WorkerId, Incarnation> neighbours;
  if (self != nullptr) neighbours = Find(roster, *self, stages, tied);
  for (const auto& [id, incarnation] : neighbours) {
    const auto known = watched_.find(id);
    if (known == watched_.end() || known->second != incarnation) change.came.push_back(id);
  }
  for (const auto& [id, incarnation] : watched_) {
    if (!neighbours.contains(id)) change.gone.push_back(id);
  }
  if (self == nullptr) {
    Clear();
    return change;
  }
  const bool mesh = roster.members.size() > mesh_.all_up_to;
  const Duration interval = BeatInterval(neighbours.size(), roster.members.size(), mesh);
  const Duration first =
      interval + (mesh ? kConnecting * static_cast<int>(change.came.size()) : Duration());
  if (interval != interval_) {
    interval_ = interval;
    detector_ = FailureDetector(OptionsFor(interval));
    for (const auto& [id, incarnation] : neighbours) detector_.Watch(id, now);
    for (const auto& [id, last] : exchanging_) detector_.Watch(id, now);
  }
  members_.clear();
  for (const Member& member : roster.members) {
    if (mesh) members_.insert(member.id);
  }
  std::erase_if(exchanging_, [&](const auto& entry) {
    if (members_.contains(entry.first) && !neighbours.contains(entry.first)) return false;
    detector_.Forget(entry.first);
    return true;
  });
  for (const WorkerId& id : change.gone) {
    detector_.Forget(id);
    connecting_.erase(id);
  }
  for (const WorkerId& id : change.came) {
    detector_.Watch(id, now, first);
    if (mesh) connecting_.insert(id);
  }
  if (!mesh) connecting_.clear();
  if (!change.came.empty()) connecting_since_ = now;
  watched_ = std::move(neighbours);
  return change;
}

void Neighbours::OnBeat(const WorkerId& from, Timepoint now) {
  detector_.OnBeat(from, now);
  if (connecting_.erase(from) == 0) return;
  WaitForConnections(now);  // they take turns, and one more is there
}

void Neighbours::WaitForConnections(Timepoint now) {
  for (const WorkerId& id : connecting_) detector_.Watch(id, now);
}

void Neighbours::OnExchange(const WorkerId& with, const Message& message, Timepoint now) {
  if (!CarriesMicrobatch(message)) return;
  if (with == self_ || watched_.contains(with) || !members_.contains(with)) return;
  if (exchanging_.insert_or_assign(with, now).second) {
    detector_.Watch(with, now, interval_ + kConnecting);
  }
}

void Neighbours::Clear() {
  for (const auto& [id, incarnation] : watched_) detector_.Forget(id);
  for (const auto& [id, last] : exchanging_) detector_.Forget(id);
  watched_.clear();
  connecting_.clear();
  exchanging_.clear();
  members_.clear();
  reported_.clear();
}

Neighbours::Due Neighbours::OnTick(Timepoint now) {
  Due due;
  if (now >= next_beat_) {
    next_beat_ = now + interval_;
    for (const auto& [id, incarnation] : watched_) due.beats.push_back(id);
    std::erase_if(exchanging_, [&](const auto& entry) {
      const bool over = now - entry.second > kExchangeMax;
      if (over) detector_.Forget(entry.first);
      return over;
    });
    for (const auto& [id, last] : exchanging_) due.beats.push_back(id);
  }
  if (2 * connecting_.size() > watched_.size() && now < connecting_since_ + kConnectingMax) {
    WaitForConnections(now);
  }
  std::vector<WorkerId> unheard = detector_.Suspects(now);
  if (unheard != reported_ || (!unheard.empty() && now >= next_report_)) {
    next_report_ = now + kReportInterval;
    due.report = Unheard{unheard};
    for (const WorkerId& id : unheard) connecting_.erase(id);
    reported_ = std::move(unheard);
  }
  return due;
}

}  // namespace swarm::protocol
