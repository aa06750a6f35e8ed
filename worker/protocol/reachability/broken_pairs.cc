#include "worker/protocol/reachability/broken_pairs.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace swarm::protocol {
namespace {

WorkerPair PairOf(const WorkerId& a, const WorkerId& b) {
  return a < b ? WorkerPair{a, b} : WorkerPair{b, a};
}

}  // namespace

std::vector<WorkerPair> BrokenPairs::Update(const WorkerId& reporter,
                                            const std::vector<WorkerId>& unheard, Timepoint now) {
  const std::set<WorkerId> before = std::exchange(unheard_[reporter], {});
  std::set<WorkerId>& after = unheard_[reporter];
  std::vector<WorkerPair> fresh;
  for (const WorkerId& peer : unheard) {
    if (peer == reporter || !after.insert(peer).second || before.contains(peer)) continue;
    Report& report = pairs_.try_emplace(PairOf(reporter, peer), Report{now}).first->second;
    if (++report.reporters == 1) fresh.push_back(PairOf(reporter, peer));
  }
  for (const WorkerId& peer : before) {
    if (!after.contains(peer)) Remove(reporter, peer);
  }
  if (after.empty()) unheard_.erase(reporter);
  return fresh;
}

void BrokenPairs::Remove(const WorkerId& reporter, const WorkerId& unheard) {
  const auto pair = pairs_.find(PairOf(reporter, unheard));
  if (--pair->second.reporters == 0) pairs_.erase(pair);
}

void BrokenPairs::Forget(const WorkerId& worker) {
  Update(worker, {}, {});
  for (auto it = unheard_.begin(); it != unheard_.end();) {
    if (it->second.erase(worker) > 0) Remove(it->first, worker);
    it = it->second.empty() ? unheard_.erase(it) : std::next(it);
  }
}

const BrokenPairs::Report* BrokenPairs::Find(const WorkerId& a, const WorkerId& b) const {
  if (pairs_.empty()) return nullptr;
  const auto pair = pairs_.find(PairOf(a, b));
  return pair == pairs_.end() ? nullptr : &pair->second;
}

bool BrokenPairs::BrokeAfter(Timepoint time, const WorkerId& a, const WorkerId& b) const {
  const Report* report = Find(a, b);
  return report != nullptr && report->since >= time;
}

std::map<WorkerId, std::vector<Detour>> DetourPlan::ByWorker() const {
  std::map<WorkerId, std::vector<Detour>> detours;
  for (const auto& [pair, third] : via) {
    detours[pair.a].push_back({pair.b, third});
    detours[pair.b].push_back({pair.a, third});
  }
  for (auto& [worker, of_worker] : detours) std::ranges::sort(of_worker, {}, &Detour::peer);
  return detours;
}

DetourPlan PlanDetours(const BrokenPairs& broken, const std::set<WorkerId>& members,
                       const std::function<bool(const WorkerPair&)>& needs,
                       const DetourPlan& before) {
  DetourPlan plan;
  std::map<WorkerId, std::size_t> load;
  const auto serves = [&](const WorkerPair& pair, const WorkerId& third) {
    return third != pair.a && third != pair.b && !broken.Has(pair.a, third) &&
           !broken.Has(third, pair.b);
  };
  std::vector<WorkerPair> open;
  for (const auto& [pair, report] : broken.all()) {
    if (!members.contains(pair.a) || !members.contains(pair.b) || !needs(pair)) continue;
    const auto known = before.via.find(pair);
    if (known == before.via.end() || !members.contains(known->second) ||
        !serves(pair, known->second)) {
      open.push_back(pair);
      continue;
    }
    plan.via[pair] = known->second;
    ++load[known->second];
  }
  if (open.empty()) return plan;
  // Those with the least load first: nearly always one of the first serves, among a thousand too.
  std::set<std::pair<std::size_t, WorkerId>> thirds;
  for (const WorkerId& member : members) thirds.emplace(load[member], member);
  for (const WorkerPair& pair : open) {
    const auto best =
        std::ranges::find_if(thirds, [&](const auto& third) { return serves(pair, third.second); });
    if (best == thirds.end()) {
      plan.unserved.push_back(pair);
      continue;
    }
    plan.via[pair] = best->second;
    auto third = thirds.extract(best);
    ++third.value().first;
    thirds.insert(std::move(third));
  }
  return plan;
}

std::optional<WorkerId> ChooseToGo(const std::vector<WorkerPair>& pairs,
                                   const std::function<bool(const WorkerId&)>& may_go,
                                   const std::function<std::size_t(const WorkerId&)>& costs) {
  std::map<WorkerId, std::size_t> serves;
  for (const WorkerPair& pair : pairs) {
    ++serves[pair.a];
    ++serves[pair.b];
  }
  std::optional<std::tuple<std::size_t, std::ptrdiff_t, WorkerId>> best;
  for (const auto& [worker, count] : serves) {
    if (!may_go(worker)) continue;
    const std::tuple candidate(count, -static_cast<std::ptrdiff_t>(costs(worker)), worker);
    if (!best || candidate > *best) best = candidate;
  }
  if (!best) return std::nullopt;
  return std::get<WorkerId>(*best);
}

}  // namespace swarm::protocol
