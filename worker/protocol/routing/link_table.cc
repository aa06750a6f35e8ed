#include "worker/protocol/routing/link_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "worker/protocol/reachability/link_mean.h"

namespace swarm::protocol {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double Rate(const Link& link) {
  return link.bytes_per_second > 0 ? link.bytes_per_second : kUnlimited;
}

}  // namespace

void LinkTable::Update(const WorkerId& worker, const Place& from, const Place& to,
                       const Link& link) {
  links_[{from, to}][worker] = link;
}

void LinkTable::Keep(const std::function<bool(const WorkerId&)>& workers,
                     const std::set<Place>& places) {
  for (auto it = links_.begin(); it != links_.end();) {
    const bool kept = places.contains(it->first.first) && places.contains(it->first.second);
    std::erase_if(it->second, [&](const auto& report) { return !workers(report.first); });
    it = !kept || it->second.empty() ? links_.erase(it) : std::next(it);
  }
}

std::optional<Link> LinkTable::Find(const Place& from, const Place& to) const {
  auto found = links_.find({from, to});
  if (found == links_.end()) found = links_.find({to, from});
  if (found == links_.end()) return std::nullopt;
  LinkMean mean;
  for (const auto& [worker, link] : found->second) mean.Add(link);
  return mean.Get();
}

Link LinkTable::Guess() const {
  LinkMean mean;
  for (const auto& [places, reports] : links_) {
    for (const auto& [worker, link] : reports) mean.Add(link);
  }
  return {mean.Get().round_trip, 0};
}

std::map<WorkerId, double> LinkTable::RoundTrips() const {
  std::map<WorkerId, LinkMean> means;
  for (const auto& [places, reports] : links_) {
    for (const auto& [worker, link] : reports) means[worker].Add(link);
  }
  std::map<WorkerId, double> round_trips;
  for (const auto& [worker, mean] : means) round_trips[worker] = mean.Get().round_trip;
  return round_trips;
}

FlowGraph BuildGraph(const std::vector<std::vector<PlacedWorker>>& stages, const LinkTable& links,
                     const std::vector<BoundaryBytes>& boundaries, const CountBroken& broken) {
  FlowGraph graph;
  std::vector<std::map<Place, double>> counts;  // of workers, by stage
  for (const auto& stage : stages) {
    auto& places = graph.stages.emplace_back();
    auto& count = counts.emplace_back();
    for (const PlacedWorker& worker : stage) {
      places[worker.place].rate += 1 / worker.seconds;
      ++count[worker.place];
    }
    for (auto& [place, workers] : places) workers.seconds = count[place] / workers.rate;
  }
  const Link guess = links.Guess();
  for (std::uint64_t s = 0; s + 1 < stages.size(); ++s) {
    auto& cut = graph.cuts.emplace_back();
    const BoundaryBytes& bytes = boundaries.at(s);
    for (const auto& [from, senders] : counts[s]) {
      for (const auto& [to, receivers] : counts[s + 1]) {
        const double pairs = senders * receivers - static_cast<double>(broken(s, from, to));
        if (pairs <= 0) continue;
        const Link there = links.Find(from, to).value_or(guess);
        const Link back = links.Find(to, from).value_or(guess);
        const double forward = bytes.forward / Rate(there), backward = bytes.backward / Rate(back);
        const double slower = std::max(forward, backward);
        cut[{from, to}] = {slower > 0 ? pairs / slower : kUnlimited,
                           (there.round_trip + back.round_trip) / 2 + forward + backward};
      }
    }
  }
  return graph;
}

}  // namespace swarm::protocol
