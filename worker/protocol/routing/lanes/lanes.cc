#include "worker/protocol/routing/lanes/lanes.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::protocol {
namespace {

/// The ends of parts of two stages that are nearer to each other than this part of the average part
/// count as one.
constexpr double kTolerance = 0.05;

/// A part of a stage's line, and the region of the worker whose it is.
struct Stretch {
  double begin, end;
  std::string region;
};
using Line = std::vector<Stretch>;
using Stop = Lanes::Stop;
using RegionOf = std::function<std::string(const WorkerId&)>;

Line LineOf(const std::vector<Stop>& stage, const RegionOf& region_of) {
  double all = 0, at = 0;
  for (const Stop& stop : stage) all += stop.rate;
  Line line;
  for (const Stop& stop : stage) {
    const double begin = at;
    at += stop.rate / all;
    line.push_back({begin, at, region_of(stop.worker)});
  }
  return line;
}

/// How much of the line each region has between the two ends.
std::map<std::string, double> Between(const Line& line, double begin, double end) {
  std::map<std::string, double> lengths;
  auto at = std::ranges::upper_bound(line, begin, {}, &Stretch::end);
  for (; at != line.end() && at->begin < end; ++at) {
    lengths[at->region] += std::min(at->end, end) - std::max(at->begin, begin);
  }
  return lengths;
}

/// Fills the places [first, first + stops.size()) of `to`, each as long as the others, from `begin`
/// of the line on, beside the stage before.
void FillPlaces(const std::vector<Stop>& stops, double begin, double length, const Line& before,
                const RegionOf& region_of, std::vector<Stop>* to) {
  std::map<std::string, std::deque<Stop>> left;
  for (const Stop& stop : stops) left[region_of(stop.worker)].push_back(stop);
  // What each region has left, less what the line before has of it from here on.
  std::map<std::string, double> surplus;
  for (const auto& [region, of_region] : left) {
    surplus[region] = static_cast<double>(of_region.size()) * length;
  }
  const double end = begin + static_cast<double>(stops.size()) * length;
  for (const auto& [region, part] : Between(before, begin, end)) surplus[region] -= part;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const double from = begin + static_cast<double>(i) * length;
    auto here = Between(before, from, from + length);
    const auto best = std::ranges::max_element(left, {}, [&](const auto& entry) {
      // Rounding makes no difference between regions.
      return std::pair(std::round(here[entry.first] / length * 1e6),
                       std::round(surplus[entry.first] / length * 1e6));
    });
    for (const auto& [region, part] : here) surplus[region] += part;
    surplus[best->first] -= length;
    to->push_back(std::move(best->second.front()));
    best->second.pop_front();
    if (best->second.empty()) left.erase(best);
  }
}

}  // namespace

void BringRegionsTogether(const std::map<WorkerId, std::string>& regions,
                          std::vector<std::vector<Stop>>* stages) {
  const RegionOf region_of = [&](const WorkerId& id) {
    const auto found = regions.find(id);
    return found == regions.end() ? std::string() : found->second;
  };
  for (std::size_t s = 1; s < stages->size(); ++s) {
    const Line before = LineOf((*stages)[s - 1], region_of);
    double all = 0, at = 0;
    for (const Stop& stop : (*stages)[s]) all += stop.rate;
    std::vector<Stop> placed;
    for (auto begin = (*stages)[s].begin(); begin != (*stages)[s].end();) {
      const auto end = std::find_if((*stages)[s].begin(), (*stages)[s].end(),
                                    [&](const Stop& stop) { return stop.rate < begin->rate; });
      FillPlaces({begin, end}, at, begin->rate / all, before, region_of, &placed);
      at += static_cast<double>(end - begin) * begin->rate / all;
      begin = end;
    }
    (*stages)[s] = std::move(placed);
  }
}

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
