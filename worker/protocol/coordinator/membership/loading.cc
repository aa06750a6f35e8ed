#include "worker/protocol/coordinator/membership/loading.h"

#include <algorithm>
#include <string>

#include "worker/protocol/balance/regions.h"
#include "worker/protocol/roster.h"

namespace swarm::protocol {

std::uint64_t Loading::Lacks(StageIndex stage) const {
  const std::uint64_t wanted = job_.options.replicas[stage.value];
  return wanted - std::min(wanted, members_.CountLoading(stage));
}

std::optional<StageIndex> Loading::ChooseByRegion(const std::string& region) const {
  const RegionRule& rule = job_.options.regions;
  const bool near = !rule.survive_loss && (rule.boundary_bytes > 0 || !rule.sum_bytes.empty());
  if (!job_.options.rules.heed_regions || !(rule.survive_loss || near)) return std::nullopt;
  std::vector<StageLoad> loads(job_.stages());
  for (const auto& [id, worker] : members_.all()) {
    if (worker.role() != Role::kLoading) continue;
    auto& replicas = loads[worker.member.stage.value].replicas;
    replicas.push_back({.worker = id, .rate = 1, .region = worker.member.region});
  }
  const std::vector<std::string> regions = RegionsOf(loads);
  if (regions.empty() || regions == std::vector{region}) return std::nullopt;
  std::vector<StageIndex> lacking;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (Lacks(StageIndex(s)) > 0) lacking.emplace_back(s);
  }
  if (lacking.empty()) return std::nullopt;
  if (near) return FindNearest(loads, lacking, region, rule);
  const auto rank = [&](StageIndex stage) {
    const bool one = RegionsOf({loads[stage.value]}).size() == 1;
    const bool here = one && loads[stage.value].replicas.front().region == region;
    const int order = one && !here ? 2 : (here && Lacks(stage) == 1 ? 0 : 1);
    return std::pair(order, Lacks(stage));
  };
  return *std::ranges::max_element(lacking, {}, rank);
}

std::optional<StageIndex> Loading::ChooseStage(const Member& member) const {
  if (const auto near = ChooseByRegion(member.region)) return near;
  const std::optional<StageIndex> own = members_.StageOfPod(member);
  const std::uint64_t own_lacks = own ? Lacks(*own) : 0;
  if (own_lacks > 1 || (own_lacks == 1 && members_.HasOtherPods(*own, PodOf(member)))) return own;
  std::optional<StageIndex> best;
  std::uint64_t most = 0;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    const std::uint64_t lacks = Lacks(StageIndex(s));
    if (lacks <= most || own == StageIndex(s)) continue;
    most = lacks;
    best = StageIndex(s);
  }
  return best || own_lacks == 0 ? best : own;
}

void Loading::Assign(const WorkerId& id, Worker& worker, Turn& turn) {
  const auto stage = ChooseStage(worker.member);
  if (!stage) return;
  members_.Become(worker, Role::kLoading, *stage);
  worker.since = turn.now;
  turn.Report(EventKind::kWorkerJoined, id.value + " serves stage " + std::to_string(stage->value),
              {.worker = id, .stage = stage, .seconds = ToSeconds(turn.now - worker.came)});
  turn.Tell(id, job_.WelcomeTo(*stage));
}

void Loading::AssignWaiting(Turn& turn) {
  for (auto& [id, worker] : members_.all()) {
    if (worker.role() == Role::kWaiting) Assign(id, worker, turn);
  }
}

void Loading::OnReady(const WorkerId& from, const Ready& ready, Turn& turn) {
  if (ready.version != job_.version) return;
  members_.At(from).loaded = true;
  for (const auto& [other, worker] : members_.all()) {
    if (!worker.loaded || worker.member.stage != ready.stage || worker.state == ready.state) {
      continue;
    }
    turn.Fail("the replicas of stage " + std::to_string(ready.stage.value) +
                  " begin with different weights: " + from.value + " and " + other.value,
              FailureClass::kDiverged);
    return;
  }
}

bool Loading::StartTraining(Turn& turn) {
  if (job_.phase != Phase::kWaiting && job_.phase != Phase::kLoading) return false;
  for (std::uint64_t s = 0; s < job_.stages() && job_.phase == Phase::kWaiting; ++s) {
    if (Lacks(StageIndex(s)) > 0) return false;
  }
  auto& workers = members_.all();
  const bool all_loaded = std::all_of(workers.begin(), workers.end(), [](const auto& entry) {
    return entry.second.role() != Role::kLoading || entry.second.loaded;
  });
  if (!all_loaded) return false;
  for (auto& [id, worker] : workers) {
    if (worker.role() != Role::kLoading) continue;
    members_.Become(worker, Role::kReady);
    members_.holders().AddWhole(id, worker.member.stage);
    worker.loaded = false;
  }
  job_.phase = Phase::kTraining;
  members_.PublishRoster({}, turn);
  if (job_.stopping) job_.last_step = job_.version.value;
  const auto count = std::count_if(workers.begin(), workers.end(),
                                   [](const auto& entry) { return entry.second.InRoster(); });
  turn.Report(EventKind::kTrainingStarted,
              std::to_string(count) + " workers in " + std::to_string(job_.stages()) +
                  " stages, from version " + std::to_string(job_.version.value));
  return true;
}

bool Loading::IsStaffed() const {
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (members_.CountLoading(StageIndex(s)) == 0) return false;
  }
  return true;
}

void Loading::Check(const WorkerId& id, const Worker& worker, Turn& turn) const {
  if (worker.role() != Role::kLoading || worker.loaded ||
      turn.now - worker.since < job_.options.patience.load) {
    return;
  }
  turn.Evict(id, "does not load its state", EvictionCause::kLate);
}

}  // namespace swarm::protocol
