#include "worker/protocol/coordinator/step/route_planning.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "worker/protocol/reachability/link_reports.h"
#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

/// Rates and links change all the time; a plan takes milliseconds.
constexpr Duration kPlanInterval = std::chrono::seconds(5);

std::string Describe(const FlowGraph& graph, const Shares& shares, const Shares& lanes) {
  const Flow without = JudgeShares(graph, lanes);
  const Flow flow = shares.empty() ? without : JudgeShares(graph, shares);
  char text[160];
  std::snprintf(text, sizeof(text),
                "%s: at most %.3g microbatches/s of %.3g s each; lanes: %.3g of %.3g s",
                shares.empty() ? "lanes" : "by links", flow.rate, flow.seconds, without.rate,
                without.seconds);
  return text;
}

}  // namespace

void RoutePlanning::OnLinks(const WorkerId& from, const Links& links) {
  const Worker* worker = members_.Find(from);
  if (worker == nullptr || !worker->InRoster()) return;
  for (const MeasuredLink& measured : links.links) {
    const Link& link = measured.link;
    if (!(link.round_trip >= 0) || !(link.bytes_per_second >= 0)) continue;
    if (!places_.contains(measured.to)) continue;
    links_.Update(from, PlaceOf(from), measured.to, link);
  }
}

void RoutePlanning::OnProgress(const Progress& progress) {
  for (const TaskReport& report : progress.reports) {
    const std::uint64_t s = report.key.stage.value;
    const auto bytes = static_cast<double>(report.boundary_bytes);
    if (bytes == 0) continue;
    if (report.event == TaskReport::Event::kForwarded && s < boundaries_.size()) {
      boundaries_[s].forward = bytes;
    } else if (report.event == TaskReport::Event::kFolded && s > 0 && s <= boundaries_.size()) {
      boundaries_[s - 1].backward = bytes;
    }
  }
}

void RoutePlanning::OnNewRoster() {
  planned_ = false;
  roster_size_ = 0;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    roster_size_ += members_.Replicas(StageIndex(s)).size();
  }
  places_.clear();  // what a place is depends on the size
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    for (const WorkerId& id : members_.Replicas(StageIndex(s))) places_.insert(PlaceOf(id));
  }
  links_.Keep([&](const WorkerId& id) { return members_.Has(id); }, places_);
  ShowRoster();
}

void RoutePlanning::ShowRoster() {
  // Of the roster, not of those that get microbatches: it is what workers know.
  std::vector<std::vector<WorkerId>> stages;
  std::map<WorkerId, std::string> regions;
  std::set<WorkerId> relayed;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    stages.push_back(members_.Replicas(StageIndex(s)));
    for (const WorkerId& id : stages.back()) {
      const Member& member = members_.At(id).member;
      regions[id] = member.region;
      if (IsRelayed(member)) relayed.insert(id);
    }
  }
  router_.SetRegions(std::move(regions));
  router_.SetRelayed(std::move(relayed));
  router_.SetMesh(Mesh(stages, job_.options.mesh));
}

Place RoutePlanning::PlaceOf(const WorkerId& id) const {
  return protocol::PlaceOf(members_.At(id).member, roster_size_);
}

std::vector<std::vector<PlacedWorker>> RoutePlanning::PlaceWorkers() const {
  std::vector<std::vector<PlacedWorker>> stages;
  for (const auto& replicas : members_.RoutableReplicas()) {
    auto& stage = stages.emplace_back();
    for (const WorkerId& id : replicas) {
      // Not what it was charged for waiting: others may be the cause.
      const double own = router_.ServiceSeconds(id);
      stage.push_back({id, PlaceOf(id), own > 0 ? own : router_.EstimateSeconds(id)});
    }
  }
  return stages;
}

bool RoutePlanning::IsMeasured(const std::vector<std::vector<PlacedWorker>>& stages) const {
  return std::ranges::all_of(stages,
                             [&](const auto& stage) {
                               return std::ranges::any_of(stage, [&](const PlacedWorker& worker) {
                                 return router_.IsMeasured(worker.id);
                               });
                             }) &&
         std::ranges::all_of(boundaries_, [](const BoundaryBytes& bytes) {
           return bytes.forward > 0 && bytes.backward > 0;
         });
}

CountBroken RoutePlanning::BrokenByPlaces() const {
  std::map<std::tuple<std::uint64_t, Place, Place>, std::uint64_t> counts;
  for (const auto& [pair, report] : broken_.all()) {
    const Worker *a = members_.Find(pair.a), *b = members_.Find(pair.b);
    if (a == nullptr || b == nullptr) continue;
    std::uint64_t lower = a->member.stage.value, upper = b->member.stage.value;
    Place from = PlaceOf(pair.a), to = PlaceOf(pair.b);
    if (lower > upper) {
      std::swap(lower, upper);
      std::swap(from, to);
    }
    if (lower + 1 == upper) ++counts[{lower, from, to}];
  }
  return [counts = std::move(counts)](std::uint64_t s, const Place& from, const Place& to) {
    const auto found = counts.find({s, from, to});
    return found == counts.end() ? 0 : found->second;
  };
}

void RoutePlanning::Refresh(Turn& turn) {
  if (std::exchange(roster_, members_.epoch()) != members_.epoch()) OnNewRoster();
  if (links_.empty() || (planned_ && turn.now < next_)) return;
  const auto stages = PlaceWorkers();
  if (!IsMeasured(stages)) return;
  next_ = turn.now + kPlanInterval;
  const FlowGraph graph = BuildGraph(stages, links_, boundaries_, BrokenByPlaces());
  Ways::Places places;
  for (const auto& stage : stages) {
    for (const PlacedWorker& worker : stage) places[worker.id] = worker.place;
  }
  const Shares lanes = router_.SharesOfLanes(places);
  Shares shares = ChooseShares(graph, router_.shares(), lanes);
  const bool same_shares = shares == router_.shares();
  if (std::exchange(planned_, true) && same_shares) return;
  if (!same_shares) turn.Report(EventKind::kRoutesPlanned, Describe(graph, shares, lanes));
  router_.SetShares(std::move(shares), std::move(places));
}

}  // namespace swarm::protocol
