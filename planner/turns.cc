#include "planner/turns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/places.h"
#include "planner/stage_memory.h"

namespace swarm::planner {
namespace {

constexpr double kTurnMax = 1000;
/// As a share: less than what is needed.
constexpr double kBelow = 1e-3;

Fleet Scaled(Fleet fleet, const Scale& scale) {
  for (Link& link : fleet.links) link.rate *= scale.links;
  for (Machines& group : fleet.groups) {
    group.upload *= scale.links;
    group.download *= scale.links;
    group.flops *= scale.devices;
    if (scale.hosts == 1) continue;
    group.disk *= scale.hosts;
    if (group.device_bytes > 0 || group.update_rate > 0) {
      group.update_rate = UpdateRate(group) * scale.hosts;
    }
    group.memory_rate = MemoryRate(group) * scale.hosts;
    group.to_device = ToDevice(group) * scale.hosts;
    group.from_device = FromDevice(group) * scale.hosts;
  }
  return fleet;
}

/// The factor nearest to 1, up or down to `end`, at which the other plan is better.
template <typename Wins>
std::optional<double> FirstWin(double end, const Wins& wins) {
  constexpr int kSteps = 60, kHalvings = 20;
  double before = 1;
  for (int i = 1; i <= kSteps; ++i) {
    double at = std::pow(end, static_cast<double>(i) / kSteps);
    if (!wins(at)) {
      before = at;
      continue;
    }
    for (int n = 0; n < kHalvings; ++n) {
      const double middle = std::sqrt(before * at);
      (wins(middle) ? at : before) = middle;
    }
    return at;
  }
  return std::nullopt;
}

}  // namespace

Turn Turns::Of(const Plan& other) {
  const auto links = [&](double factor) { return Wins(other, {.links = factor}); };
  const auto devices = [&](double factor) { return Wins(other, {.devices = factor}); };
  Turn turn{FirstWin(1 / kTurnMax, links), FirstWin(kTurnMax, links),
            FirstWin(1 / kTurnMax, devices), FirstWin(kTurnMax, devices)};
  if (!IsSwapped(best_) && !IsSwapped(other)) return turn;
  const auto hosts = [&](double factor) { return Wins(other, {.hosts = factor}); };
  turn.slower_hosts = FirstWin(1 / kTurnMax, hosts);
  turn.faster_hosts = FirstWin(kTurnMax, hosts);
  if (!IsSwapped(best_)) turn.smaller_devices = SmallerDevices(other);
  return turn;
}

bool Turns::Wins(const Plan& other, const Scale& scale) {
  const Fleet fleet = Scaled(request_.fleet, scale);
  auto best = worth_.find(scale);
  if (best == worth_.end()) {
    const double worth = Worth(Predict(best_.way, costs_.Of(best_.way.spec), fleet), request_.goal);
    best = worth_.emplace(scale, worth).first;
  }
  return Wins(other, fleet, best->second);
}

bool Turns::Wins(const Plan& other, const Fleet& fleet, double best) const {
  const bool plainer = Plainness(other) < Plainness(best_);
  const auto wins = [&](double worth) {
    return plainer ? worth >= best * (1 - kPlanTie) : worth * (1 - kPlanTie) > best;
  };
  const ModelCosts& model = costs_.Of(other.way.spec);
  const Prediction roomy = PredictRoomy(other.way, model, fleet);
  const double most = Worth(roomy, request_.goal);
  if (!roomy.in_flight_max) return wins(most);
  return wins(most * (1 + kRounding)) &&
         wins(Worth(Predict(other.way, model, fleet), request_.goal));
}

std::optional<double> Turns::SmallerDevices(const Plan& other) const {
  const Way& way = best_.way;
  const ModelCosts& model = costs_.Of(way.spec);
  std::array<double, 2> needs{};  // as the fleet is, and with the state on the host
  bool only_devices = true;
  EachPlace(way, [&](std::size_t s, std::size_t g) {
    Machines group = request_.fleet.groups[g];
    only_devices = only_devices && group.device_bytes > 0;
    for (double& need : needs) {
      const bool alone = MachinesIn(way.machines[s]) < 2;
      need = std::max(need, LeastMemory(way.spec, model, group, way.runs[s], alone));
      group.device_bytes = 1;
    }
  });
  if (!only_devices) return std::nullopt;
  for (const double need : needs) {
    Fleet fleet = request_.fleet;
    for (Machines& group : fleet.groups) {
      group.device_bytes = std::min(group.device_bytes, need * (1 - kBelow));
    }
    if (!HasRoom(other.way, costs_.Of(other.way.spec), fleet)) continue;
    const bool fits = HasRoom(way, model, fleet);
    const double best = fits ? Worth(Predict(way, model, fleet), request_.goal) : 0;
    if (!fits || Wins(other, fleet, best)) return need;
  }
  return std::nullopt;
}

}  // namespace swarm::planner
