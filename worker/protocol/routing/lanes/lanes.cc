#include "worker/protocol/routing/lanes/lanes.h"

#include <algorithm>
#include <utility>

#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::protocol {
namespace {

/// The ends of parts of two stages that are nearer to each other than this part of the average part
/// count as one.
constexpr double kTolerance = 0.05;

}  // namespace

std::vector<WorkerId> SeatInLanes(std::vector<WorkerId> workers) {
  return SeatParticipants(std::move(workers), /*rows=*/2);
}

Lanes::Lanes(const std::vector<std::vector<Stop>>& stages, std::uint64_t first) {
  struct End {
    double at;
    std::size_t stage;
    bool operator<(const End& other) const { return at < other.at; }
  };
  std::vector<End> ends;
  std::size_t most = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double all = 0;
    for (const Stop& stop : stages[s]) all += stop.rate;
    double at = 0;
    for (const Stop& stop : stages[s]) ends.push_back({(at += stop.rate) / all, s});
    most = std::max(most, stages[s].size());
    if (stages[s].empty()) return;
  }
  std::ranges::stable_sort(ends, {}, &End::at);
  const double tolerance = kTolerance / static_cast<double>(std::max<std::size_t>(most, 1));
  std::vector<std::size_t> seats(stages.size());
  double begin = 0;
  for (auto end = ends.begin(); end != ends.end();) {
    const double at = end->at;
    Lane& lane = lanes_.emplace_back();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      // The last end may come early by rounding.
      const WorkerId& worker = stages[s][std::min(seats[s], stages[s].size() - 1)].worker;
      workers_[worker].lanes.push_back(lanes_.size() - 1);
      lane.route.push_back(worker);
    }
    lane.step = 1 / (at - begin);
    begin = at;
    while (end != ends.end() && end->at <= at + tolerance) ++seats[end++->stage];
  }
  for (std::size_t i = 0, n = lanes_.size(); i < n; ++i) {
    Lane& lane = lanes_[i];
    lane.due = lane.step * static_cast<double>((i + n - first % n) % n) / static_cast<double>(n);
    open_.emplace(lane.due, i);
  }
}

std::vector<std::pair<Lanes::Route, double>> Lanes::All() const {
  std::vector<std::pair<Route, double>> all;
  for (const Lane& lane : lanes_) all.emplace_back(lane.route, 1 / lane.step);
  return all;
}

void Lanes::SetOpen(const WorkerId& worker, bool open) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || std::exchange(found->second.open, open) == open) return;
  for (const std::size_t i : found->second.lanes) {
    Lane& lane = lanes_[i];
    if (open) {
      if (--lane.closed == 0) open_.emplace(lane.due, i);
    } else {
      if (lane.closed++ == 0) open_.erase({lane.due, i});
    }
  }
}

std::optional<Lanes::Route> Lanes::Draw(const std::function<bool(const Route&)>& passable) {
  const auto next = std::ranges::find_if(
      open_, [&](const auto& entry) { return passable(lanes_[entry.second].route); });
  if (next == open_.end()) return std::nullopt;
  const std::size_t i = next->second;
  Lane& lane = lanes_[i];
  open_.erase(next);
  // A lane that was closed for a while must not get a burst when it is open again.
  const double due = std::max(lane.due, clock_ - lane.step);
  clock_ = std::max(clock_, due);
  lane.due = due + lane.step;
  open_.emplace(lane.due, i);
  return lane.route;
}

}  // namespace swarm::protocol
