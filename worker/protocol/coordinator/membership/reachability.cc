#include "worker/protocol/coordinator/membership/reachability.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {
namespace {

/// From the first report of a pair without a detour to an eviction: others that do not hear the
/// same worker have reported by then.
constexpr Duration kEvidence = std::chrono::seconds(2);
/// From then to an eviction that takes the job back to a checkpoint: the pair may heal before, and
/// another holder of the parts may come.
constexpr Duration kBeforeRollback = std::chrono::seconds(20);

}  // namespace

void Reachability::OnUnheard(const WorkerId& from, const Unheard& unheard, Turn& turn) {
  if (!job_.options.rules.heed_broken_pairs) return;
  std::vector<WorkerId> members;  // an evicted worker may be in a report that was on its way
  for (const WorkerId& peer : unheard.peers) {
    const Worker* worker = members_.Find(peer);
    if (worker != nullptr && worker->InRoster()) members.push_back(peer);
  }
  const std::size_t before = broken_.all().size();
  const std::vector<WorkerPair> fresh = broken_.Update(from, members, turn.now);
  if (fresh.empty() && broken_.all().size() == before) return;
  for (const WorkerPair& pair : fresh) {
    turn.Report(
        EventKind::kPairBroken,
        pair.a.value + " and " + pair.b.value + " do not reach each other, says " + from.value,
        {.worker = from});
  }
  reported_ = true;
}

void Reachability::Lose(const WorkerId& worker) {
  broken_.Forget(worker);
  detours_.erase(worker);
  std::erase_if(unserved_, [&](const auto& entry) {
    return entry.first.a == worker || entry.first.b == worker;
  });
}

void Reachability::Clear() {
  broken_ = {};
  plan_ = {};
  detours_.clear();
  unserved_.clear();
}

void Reachability::Refresh(Turn& turn) {
  const bool same_roster = std::exchange(planned_for_, members_.epoch()) == members_.epoch();
  if (!std::exchange(reported_, false) && same_roster) return;
  if (!broken_.empty() || !detours_.empty() || !unserved_.empty()) Plan(turn);
}

bool Reachability::Need(const WorkerPair& pair) const {
  const std::uint64_t a = members_.At(pair.a).member.stage.value;
  const std::uint64_t b = members_.At(pair.b).member.stage.value;
  if (std::max(a, b) - std::min(a, b) <= 1) return true;
  return std::ranges::any_of(job_.groups, [&](const ReduceGroup& group) {
    return group.Has(StageIndex(a)) && group.Has(StageIndex(b));
  });
}

void Reachability::Plan(Turn& turn) {
  std::set<WorkerId> members;
  for (const auto& [id, worker] : members_.all()) {
    if (worker.InRoster()) members.insert(members.end(), id);
  }
  plan_ = PlanDetours(broken_, members, [&](const WorkerPair& pair) { return Need(pair); }, plan_);
  std::map<WorkerPair, Timepoint> unserved;
  for (const WorkerPair& pair : plan_.unserved) {
    const auto known = unserved_.find(pair);
    unserved[pair] = known == unserved_.end() ? turn.now : known->second;
  }
  unserved_ = std::move(unserved);
  const auto before = std::exchange(detours_, plan_.ByWorker());
  for (const auto& [id, detours] : detours_) {
    const auto known = before.find(id);
    if (known != before.end() && known->second == detours) continue;
    turn.Tell(id, Detours{job_.options.term, detours});
  }
  for (const auto& [id, detours] : before) {
    if (!detours_.contains(id) && members.contains(id)) {
      turn.Tell(id, Detours{job_.options.term, {}});
    }
  }
}

bool Reachability::SharesParts(const WorkerPair& pair) const {
  const StageIndex a = members_.At(pair.a).member.stage, b = members_.At(pair.b).member.stage;
  return a == b && !members_.holders().PartsOf(a).empty();
}

std::size_t Reachability::ShareOf(const WorkerId& id) const {
  const Worker& worker = members_.At(id);
  if (worker.role() != Role::kReady) return 0;
  return job_.options.microbatches / members_.ReadyReplicas(worker.member.stage).size();
}

void Reachability::Check(Turn& turn) {
  std::vector<WorkerPair> due;
  for (const auto& [pair, since] : unserved_) {
    if (turn.now - since >= kEvidence) due.push_back(pair);
  }
  if (due.empty()) return;
  const auto cost = [&](const WorkerId& id) { return ShareOf(id); };
  auto goes = ChooseToGo(due, [&](const WorkerId& id) { return members_.CanSpare(id); }, cost);
  if (!goes) {
    // Holders of one stage that need each other's parts, and are the only ones that have them.
    std::erase_if(due, [&](const WorkerPair& pair) {
      return turn.now - unserved_.at(pair) < kBeforeRollback || !SharesParts(pair);
    });
    goes = ChooseToGo(due, [&](const WorkerId& id) { return members_.CanReplace(id); }, cost);
  }
  if (!goes) return;  // no departure would help: the job waits until the pair heals
  job_.hold_off.Extend(*goes, turn.now);
  turn.Evict(*goes, "other workers do not reach it", EvictionCause::kUnreachable);
}

std::string Reachability::DescribeWait() const {
  std::string text;
  for (const auto& [pair, since] : unserved_) {
    text += (text.empty() ? "a way between " : ", ") + pair.a.value + " and " + pair.b.value;
  }
  return text;
}

}  // namespace swarm::protocol
