#include "worker/protocol/routing/ways.h"

#include <algorithm>

namespace swarm::protocol {

Ways::Ways(const Shares& shares, const Places& places, const std::vector<Wiring>& stages) {
  if (shares.size() != stages.size()) return;
  std::map<Place, Junction*> before{{"", &source_}};
  stages_.resize(shares.size());
  where_.resize(shares.size());
  for (std::size_t s = 0; s < shares.size(); ++s) {
    std::map<Place, std::vector<WorkerId>> members;
    for (const WorkerId& worker : stages[s].Members()) {
      const auto place = places.find(worker);
      if (place != places.end()) members[place->second].push_back(worker);
    }
    std::map<Place, std::size_t> index;
    for (const auto& [place, workers] : members) {
      index[place] = stages_[s].size();
      for (const WorkerId& worker : workers) where_[s][worker] = index[place];
      Stop& stop = stages_[s].emplace_back(stages[s]);
      stop.workers.SetMembers(workers);
    }
    std::map<Place, double> leaving;
    for (const auto& [way, share] : shares[s]) leaving[way.first] += share;
    for (const auto& [way, share] : shares[s]) {
      const auto from = before.find(way.first);
      const auto to = index.find(way.second);
      if (from == before.end() || to == index.end()) continue;
      const double step = leaving[way.first] / share;
      from->second->ways.push_back({to->second, step, step});
    }
    before.clear();
    for (const auto& [place, i] : index) before[place] = &stages_[s][i].out;
  }
  if (!Look([](const Stop&) { return true; })) *this = Ways();
}

bool Ways::LeadsOn(const Junction& from, const Stops& to) {
  return std::ranges::any_of(from.ways, [&](const Way& way) { return to[way.to].passable; });
}

bool Ways::Look(const std::function<bool(const Stop&)>& open) {
  for (std::size_t s = stages_.size(); s-- > 0;) {
    for (Stop& stop : stages_[s]) {
      stop.passable = open(stop) && (s + 1 == stages_.size() || LeadsOn(stop.out, stages_[s + 1]));
    }
  }
  return !stages_.empty() && LeadsOn(source_, stages_.front());
}

Ways::Stop& Ways::Take(Junction& from, Stops& to) {
  Way* next = nullptr;
  for (Way& way : from.ways) {
    if (to[way.to].passable && (next == nullptr || way.due < next->due)) next = &way;
  }
  const double due = std::max(next->due, from.clock - next->step);
  from.clock = std::max(from.clock, due);
  next->due = due + next->step;
  return to[next->to];
}

std::optional<std::vector<WorkerId>> Ways::Draw(const Predicate& reaches, const Mesh& mesh) {
  if (!Look([](const Stop& stop) { return stop.workers.AnyOpen(); })) return std::nullopt;
  std::vector<WorkerId> route;
  Junction* at = &source_;
  WorkerId before;
  for (Stops& stops : stages_) {
    Stop& stop = Take(*at, stops);
    const auto reached = [&](const WorkerId& id) { return reaches(before, id); };
    std::optional<WorkerId> worker;
    if (const auto* few = mesh.After(route.size(), before)) {
      worker = stop.workers.PickAmong(*few, reached);
    }
    if (!worker) worker = stop.workers.Pick(reached);
    if (!worker) worker = stop.workers.Pick([](const WorkerId&) { return true; });
    route.push_back(*worker);
    before = *worker;
    at = &stop.out;
  }
  return route;
}

Wiring* Ways::Find(std::uint64_t stage, const WorkerId& worker) {
  if (empty()) return nullptr;
  const auto stop = where_.at(stage).find(worker);
  return stop == where_[stage].end() ? nullptr : &stages_[stage][stop->second].workers;
}

void Ways::SetOpen(std::uint64_t stage, const WorkerId& worker, bool open) {
  if (Wiring* const workers = Find(stage, worker)) workers->SetOpen(worker, open);
}

void Ways::Measure(std::uint64_t stage, const WorkerId& worker, double seconds) {
  if (Wiring* const workers = Find(stage, worker)) workers->Measure(worker, seconds);
}

}  // namespace swarm::protocol
