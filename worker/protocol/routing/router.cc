#include "worker/protocol/routing/router.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace swarm::protocol {
namespace {

/// Workers whose rates differ less are of one kind: lanes take them as equal.
constexpr double kKind = 1.1;
/// A worker whose rate differs more from that by which lanes were cut makes them stale.
constexpr double kRateStep = 1.05;
/// Lanes are cut anew once in so many draws for each worker, which cost as much together.
constexpr std::uint64_t kDrawsBetweenCuts = 4;

}  // namespace

std::vector<std::uint64_t> ComputeInFlightLimits(const std::vector<std::uint64_t>& replicas) {
  std::vector<std::uint64_t> limits(replicas.size());
  std::uint64_t behind = 0;
  for (std::size_t s = replicas.size(); s-- > 0;) {
    behind += replicas[s];
    limits[s] = replicas[s] == 0 ? 0 : (2 * behind + replicas[s] - 1) / replicas[s];
  }
  return limits;
}

std::uint64_t ComputeInFlightLimit(double service, double stay, std::uint64_t without,
                                   std::uint64_t stages, std::uint64_t most) {
  if (!(service > 0) || !(stay > 0)) return without;
  const double waiting = 2 * static_cast<double>(stages);
  const double wanted = std::min(std::ceil(stay / service) + waiting, static_cast<double>(most));
  return std::max(without, static_cast<std::uint64_t>(wanted));
}

Router::Router(std::uint64_t seed, std::uint64_t stages, InFlightBounds bounds,
               const BrokenPairs* broken)
    : bounds_(bounds), broken_(broken) {
  for (std::uint64_t s = 0; s < stages; ++s) wiring_.emplace_back(MixAll(seed, s));
}

void Router::SetReplicas(const std::vector<std::vector<WorkerId>>& replicas_per_stage) {
  std::vector<std::uint64_t> counts;
  for (const auto& replicas : replicas_per_stage) counts.push_back(replicas.size());
  const auto limits = ComputeInFlightLimits(counts);
  std::map<WorkerId, Load> next;
  for (std::uint64_t s = 0; s < replicas_per_stage.size(); ++s) {
    wiring_.at(s).SetMembers(replicas_per_stage[s]);
    for (const WorkerId& id : replicas_per_stage[s]) {
      const auto known = loads_.find(id);
      Load load = known != loads_.end() && known->second.stage == s ? known->second : Load{};
      load.stage = s;
      load.limit_unmeasured = limits[s];
      UpdateLimit(id, load);
      next.emplace_hint(next.end(), id, load);
    }
  }
  loads_ = std::move(next);
  ways_ = Ways(shares_, places_, wiring_);
  lanes_are_stale_ = true;
  lanes_cut_ = 0;
}

void Router::SetShares(Shares shares, Ways::Places places) {
  shares_ = std::move(shares);
  places_ = std::move(places);
  ways_ = Ways(shares_, places_, wiring_);
}

void Router::SetRegions(std::map<WorkerId, std::string> regions) {
  const auto differs = [&](const auto& entry) { return entry.second != regions.begin()->second; };
  if (std::ranges::none_of(regions, differs)) regions.clear();
  if (std::exchange(regions_, std::move(regions)) == regions_) return;
  lanes_are_stale_ = true;
  lanes_cut_ = 0;
}

void Router::UpdateLimit(const WorkerId& worker, Load& load) {
  const std::uint64_t stages = wiring_.size();
  const std::uint64_t most = bounds_.most > 0 ? bounds_.most : kInFlightPerStage * stages;
  load.limit = std::max(bounds_.least, ComputeInFlightLimit(load.service_seconds, load.stay,
                                                            load.limit_unmeasured, stages, most));
  if (bounds_.most > 0) load.limit = std::min(load.limit, bounds_.most);
  UpdateOpen(worker, load);
}

void Router::UpdateOpen(const WorkerId& worker, const Load& load) {
  const bool open = load.in_flight < load.limit;
  wiring_.at(load.stage).SetOpen(worker, open);
  ways_.SetOpen(load.stage, worker, open);
  lanes_.SetOpen(worker, open);
}

std::vector<Lanes::Stop> Router::LineUp(const Wiring& wiring) const {
  std::vector<Lanes::Stop> stops;
  for (WorkerId& id : SeatInLanes(wiring.Members())) {
    const double own = loads_.at(id).service_seconds;
    const double rate = 1 / (own > 0 ? own : wiring.MeanSeconds());
    stops.push_back({std::move(id), rate});
  }
  // Fast meets fast: where stages have the same kinds of workers, the ends of parts coincide.
  std::vector<Lanes::Stop*> by_rate;
  for (Lanes::Stop& stop : stops) by_rate.push_back(&stop);
  std::ranges::stable_sort(by_rate, std::greater(), &Lanes::Stop::rate);
  for (auto begin = by_rate.begin(); begin != by_rate.end();) {
    double sum = 0;
    const auto end = std::find_if(begin, by_rate.end(), [&](const Lanes::Stop* stop) {
      return stop->rate * kKind < (*begin)->rate;
    });
    for (auto stop = begin; stop != end; ++stop) sum += (*stop)->rate;
    const double mean = sum / static_cast<double>(end - begin);
    std::for_each(begin, end, [&](Lanes::Stop* stop) { stop->rate = mean; });
    begin = end;
  }
  std::ranges::stable_sort(stops, std::greater(), &Lanes::Stop::rate);
  return stops;
}

void Router::CutLanes() {
  lanes_are_stale_ = false;
  lanes_cut_ = fresh_;
  lanes_ = Lanes();
  std::vector<std::vector<Lanes::Stop>> stages;
  for (const Wiring& wiring : wiring_) {
    if (!(wiring.MeanSeconds() > 0)) {
      lanes_are_stale_ = true;
      lanes_cut_ = 0;
      return;
    }
    stages.push_back(LineUp(wiring));
    for (const Lanes::Stop& stop : stages.back()) loads_.at(stop.worker).in_lanes = stop.rate;
  }
  if (!regions_.empty()) BringRegionsTogether(regions_, &stages);
  lanes_ = Lanes(stages, fresh_);
  for (const auto& [id, load] : loads_) lanes_.SetOpen(id, load.in_flight < load.limit);
}

Shares Router::SharesOfLanes(const Ways::Places& places) {
  if (lanes_are_stale_) CutLanes();
  Shares shares(wiring_.size());
  for (const auto& [route, share] : lanes_.All()) {
    Place from;
    for (std::size_t s = 0; s < route.size(); ++s) {
      const auto to = places.find(route[s]);
      if (to == places.end()) return {};
      shares[s][{from, to->second}] += share;
      from = to->second;
    }
  }
  return lanes_.empty() ? Shares() : shares;
}

std::optional<std::vector<WorkerId>> Router::DrawLane(const Part& part) {
  bool avoided = false;
  auto route = lanes_.Draw([&](const Lanes::Route& workers) {
    for (std::size_t s = 1; s < workers.size(); ++s) {
      if (Avoids(workers[s - 1], workers[s])) return !(avoided = true);
    }
    return true;
  });
  return route || !avoided ? route : DrawPlain(part);
}

bool Router::Avoids(const WorkerId& before, const WorkerId& after) const {
  if (broken_ != nullptr && broken_->Has(before, after)) return true;
  return relayed_.size() > 1 && relayed_.contains(before) && relayed_.contains(after);
}

bool Router::HasRoom(const WorkerId& worker, bool repair) const {
  const Load& load = loads_.at(worker);
  return load.in_flight < load.limit + (repair ? 1 : 0);
}

bool Router::AnyHasRoom(std::uint64_t stage, bool repair) const {
  if (wiring_[stage].AnyOpen()) return true;
  return repair && std::any_of(loads_.begin(), loads_.end(), [&](const auto& entry) {
           return entry.second.stage == stage && HasRoom(entry.first, true);
         });
}

std::optional<std::vector<WorkerId>> Router::Draw(const Part& part) {
  const bool fresh =
      part.begin == 0 && part.end == wiring_.size() && !part.repair && part.avoid.value.empty();
  const bool planned = fresh && fresh_ % kPlainEvery != 0;
  const bool shared = planned && !ways_.empty();
  if (planned && !shared && lanes_are_stale_ &&
      (lanes_cut_ == 0 || fresh_ >= lanes_cut_ + kDrawsBetweenCuts * loads_.size())) {
    CutLanes();
  }
  const auto reaches = [&](const WorkerId& before, const WorkerId& worker) {
    return !Avoids(before, worker);
  };
  auto route = shared                       ? ways_.Draw(reaches, mesh_)
               : planned && !lanes_.empty() ? DrawLane(part)
                                            : DrawPlain(part);
  if (!route) return std::nullopt;
  if (fresh) ++fresh_;
  Occupy(*route);
  return route;
}

void Router::Occupy(const std::vector<WorkerId>& route) {
  for (const WorkerId& worker : route) {
    Load& load = loads_.at(worker);
    ++load.in_flight;
    UpdateOpen(worker, load);
  }
}

std::optional<std::vector<WorkerId>> Router::DrawOther(
    const std::vector<std::set<WorkerId>>& others) {
  std::vector<bool> may_be_any(wiring_.size(), true);
  std::vector<bool> has_room(wiring_.size(), false);
  for (const auto& [id, load] : loads_) {
    if (!others.at(load.stage).contains(id)) may_be_any[load.stage] = false;
  }
  const auto wanted = [&](std::uint64_t stage, const WorkerId& id) {
    return may_be_any[stage] || !others[stage].contains(id);
  };
  // Check before charging, as DrawPlain.
  for (const auto& [id, load] : loads_) {
    if (wanted(load.stage, id) && HasRoom(id, false)) has_room[load.stage] = true;
  }
  if (!std::ranges::all_of(has_room, std::identity())) return std::nullopt;
  std::vector<WorkerId> route;
  for (std::uint64_t s = 0; s < wiring_.size(); ++s) {
    auto next = wiring_[s].Pick([&](const WorkerId& id) {
      const bool reached = s == 0 || !Avoids(route.back(), id);
      return reached && wanted(s, id);
    });
    if (!next) next = wiring_[s].Pick([&](const WorkerId& id) { return wanted(s, id); });
    route.push_back(*std::move(next));
  }
  Occupy(route);
  return route;
}

std::optional<std::vector<WorkerId>> Router::DrawPlain(const Part& part) {
  // Check before charging: a route is drawn whole or not at all.
  for (std::uint64_t s = part.begin; s < part.end; ++s) {
    if (!AnyHasRoom(s, part.repair)) return std::nullopt;
  }
  const std::uint64_t first = FirstToDraw(part);
  const bool near = !part.repair;
  std::vector<WorkerId> route(part.end - part.begin);
  const auto at = [&](std::uint64_t s) -> WorkerId& { return route[s - part.begin]; };
  const auto below = [&](std::uint64_t s) { return s == part.begin ? part.below : at(s - 1); };
  const auto above = [&](std::uint64_t s) { return s + 1 == part.end ? part.above : at(s + 1); };
  for (std::uint64_t s = first; s < part.end; ++s) {
    at(s) = PickFor(s, part, below(s), above(s), near ? mesh_.After(s, below(s)) : nullptr);
  }
  for (std::uint64_t s = first; s-- > part.begin;) {
    at(s) = PickFor(s, part, below(s), above(s), near ? mesh_.Before(s, above(s)) : nullptr);
  }
  return route;
}

std::uint64_t Router::FirstToDraw(const Part& part) const {
  std::uint64_t first = part.begin;
  if (part.repair || mesh_.empty()) return first;
  for (std::uint64_t s = part.begin; s < part.end; ++s) {
    if (wiring_[s].open_count() < wiring_[first].open_count()) first = s;
  }
  return first;
}

WorkerId Router::PickFor(std::uint64_t stage, const Part& part, const WorkerId& before,
                         const WorkerId& after, const std::vector<WorkerId>* few) {
  const auto pick = [&](const Wiring::Predicate& wanted) {
    Wiring& wiring = wiring_[stage];
    if (!part.repair) return wiring.Pick(wanted);
    return wiring.PickOfAll([&](const WorkerId& id) { return HasRoom(id, true) && wanted(id); });
  };
  const auto is_best = [&](const WorkerId& id) {
    return id != part.avoid && !Avoids(before, id) && !Avoids(id, after);
  };
  if (few != nullptr) {
    if (const auto near = wiring_[stage].PickAmong(*few, is_best)) return *near;
  }
  if (relayed_.size() > 1 || (broken_ != nullptr && !broken_->empty())) {
    if (const auto best = pick(is_best)) return *best;
  }
  if (const auto other = pick([&](const WorkerId& id) { return id != part.avoid; })) return *other;
  return *pick([](const WorkerId&) { return true; });
}

void Router::Release(const WorkerId& worker) {
  const auto it = loads_.find(worker);
  if (it == loads_.end() || it->second.in_flight == 0) return;
  --it->second.in_flight;
  UpdateOpen(worker, it->second);
}

void Router::MeasureForward(const WorkerId& worker, double seconds) {
  const auto it = loads_.find(worker);
  if (it == loads_.end()) return;
  double& average = it->second.forward_seconds;
  average = average == 0 ? seconds : 0.9 * average + 0.1 * seconds;
}

void Router::MeasureBackward(const WorkerId& worker, double seconds) {
  const auto it = loads_.find(worker);
  if (it == loads_.end()) return;
  const double both = it->second.forward_seconds + seconds;
  double& average = it->second.service_seconds;
  average = average == 0 ? both : 0.9 * average + 0.1 * both;
  Measure(worker, it->second.stage, both);
  UpdateLimit(worker, it->second);
  const double off = it->second.in_lanes * average;
  lanes_are_stale_ |= off > kRateStep || off * kRateStep < 1;
}

void Router::Measure(const WorkerId& worker, std::uint64_t stage, double seconds) {
  wiring_.at(stage).Measure(worker, seconds);
  ways_.Measure(stage, worker, seconds);
}

void Router::MeasureStay(const WorkerId& worker, double seconds) {
  const auto it = loads_.find(worker);
  if (it == loads_.end() || !(seconds > 0)) return;
  // The least: any longer stay includes waiting behind other microbatches, and a higher limit would
  // only add to that.
  double& stay = it->second.stay;
  stay = stay == 0 ? seconds : std::min(stay, seconds);
  UpdateLimit(worker, it->second);
}

void Router::Charge(const WorkerId& worker, double seconds) {
  const auto it = loads_.find(worker);
  if (it == loads_.end()) return;
  if (seconds <= wiring_.at(it->second.stage).EstimateSeconds(worker)) return;
  Measure(worker, it->second.stage, seconds);
  UpdateLimit(worker, it->second);
}

std::uint64_t Router::in_flight(const WorkerId& worker) const {
  const auto it = loads_.find(worker);
  return it == loads_.end() ? 0 : it->second.in_flight;
}

std::uint64_t Router::limit(const WorkerId& worker) const {
  const auto it = loads_.find(worker);
  return it == loads_.end() ? 0 : it->second.limit;
}

double Router::EstimateSeconds(const WorkerId& worker) const {
  const auto it = loads_.find(worker);
  return it == loads_.end() ? 0 : wiring_.at(it->second.stage).EstimateSeconds(worker);
}

double Router::ServiceSeconds(const WorkerId& worker) const {
  const auto it = loads_.find(worker);
  return it == loads_.end() ? 0 : it->second.service_seconds;
}

bool Router::IsMeasured(const WorkerId& worker) const {
  const auto it = loads_.find(worker);
  return it != loads_.end() && wiring_.at(it->second.stage).IsMeasured(worker);
}

}  // namespace swarm::protocol
