#include "worker/protocol/coordinator/membership/members.h"

#include <utility>

#include "base/status.h"
#include "worker/protocol/roster.h"

namespace swarm::protocol {

int Leave::Tries() const {
  int most = 0;
  for (const auto& [step, parcel] : parcels) most = std::max(most, parcel.tries);
  return most;
}

Worker* Members::Find(const WorkerId& id) {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const Worker* Members::Find(const WorkerId& id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

Worker& Members::Add(Member member) {
  const auto [entry, is_new] = workers_.try_emplace(member.id);
  SWARM_CHECK(is_new, "a worker was added twice");
  entry->second.member = std::move(member);
  return entry->second;
}

void Members::Erase(const WorkerId& id) {
  const auto entry = workers_.find(id);
  if (entry == workers_.end()) return;
  Become(entry->second, Role::kWaiting);
  leaving_.erase(id);
  holders_.Lose(id);
  workers_.erase(entry);
}

void Members::Become(Worker& worker, Role role, StageIndex stage) {
  const WorkerId& id = worker.member.id;
  const bool was_in = worker.InRoster();
  Delist(worker);
  worker.role_ = role;
  worker.member.stage = stage;
  Enlist(worker);
  if (worker.InRoster() && !was_in) came_.insert(id);
  if (was_in && !worker.InRoster() && came_.erase(id) == 0) gone_.insert(id);
}

void Members::SetVersion(Worker& worker, Version version) {
  Delist(worker);
  worker.version_ = version;
  Enlist(worker);
}

void Members::Enlist(const Worker& worker) {
  if (worker.role_ == Role::kLoading) ++stages_.at(worker.member.stage.value).loading;
  if (!worker.InRoster()) return;
  Stage& stage = stages_.at(worker.member.stage.value);
  const auto add = [&](std::vector<WorkerId>& ids) {
    ids.insert(std::ranges::lower_bound(ids, worker.member.id), worker.member.id);
  };
  add(stage.replicas);
  if (worker.role_ != Role::kReady) return;
  add(stage.ready);
  ++stage.versions[worker.version_];
  if (!worker.leave_) add(stage.staying);
}

void Members::Delist(const Worker& worker) {
  if (worker.role_ == Role::kLoading) --stages_.at(worker.member.stage.value).loading;
  if (!worker.InRoster()) return;
  Stage& stage = stages_.at(worker.member.stage.value);
  for (std::vector<WorkerId>* ids : {&stage.replicas, &stage.ready, &stage.staying}) {
    const auto found = std::ranges::lower_bound(*ids, worker.member.id);
    if (found != ids->end() && *found == worker.member.id) ids->erase(found);
  }
  if (worker.role_ != Role::kReady) return;
  const auto reported = stage.versions.find(worker.version_);
  if (--reported->second == 0) stage.versions.erase(reported);
}

Leave& Members::BeginLeave(Worker& worker) {
  if (worker.leave_) return *worker.leave_;
  Delist(worker);
  worker.leave_.emplace();
  leaving_.insert(worker.member.id);
  Enlist(worker);
  return *worker.leave_;
}

void Members::EndLeave(Worker& worker) {
  Delist(worker);
  worker.leave_.reset();
  leaving_.erase(worker.member.id);
  Enlist(worker);
}

std::vector<std::vector<WorkerId>> Members::RoutableReplicas() const {
  std::vector<std::vector<WorkerId>> replicas(job_.stages());
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    replicas[s] = StayingReplicas(StageIndex(s));
    if (replicas[s].empty()) replicas[s] = ReadyReplicas(StageIndex(s));
  }
  return replicas;
}

bool Members::CanSpare(const WorkerId& id) const {
  return CanReplace(id) && holders_.CanSpare(id, Replicas(At(id).member.stage));
}

bool Members::CanReplace(const WorkerId& id) const {
  const Worker& worker = At(id);
  return worker.role() != Role::kReady || ReadyReplicas(worker.member.stage).size() > 1;
}

bool Members::HaveReported(Version version, StageIndex stage) const {
  const auto& versions = At(stage).versions;
  return versions.empty() || versions.begin()->first >= version;
}

bool Members::HaveReported(Version version) const {
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (!HaveReported(version, StageIndex(s))) return false;
  }
  return true;
}

std::optional<StageIndex> Members::FindLostStage() const {
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (ReadyReplicas(StageIndex(s)).empty()) return StageIndex(s);
  }
  return holders_.FindLost();
}

std::optional<StageIndex> Members::StageOfPod(const Member& member) const {
  if (member.pod.empty()) return std::nullopt;
  std::map<StageIndex, std::size_t> counts;
  for (const auto& [id, worker] : workers_) {
    const bool serves = worker.role_ != Role::kWaiting && !worker.leave_;
    if (serves && id != member.id && worker.member.pod == member.pod) ++counts[worker.member.stage];
  }
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::nullopt : std::optional(most->first);
}

bool Members::HasOtherPods(StageIndex stage, const std::string& pod) const {
  return std::ranges::any_of(workers_, [&](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.role_ != Role::kWaiting && !worker.leave_ && worker.member.stage == stage &&
           PodOf(worker.member) != pod;
  });
}

void Members::Dismiss(const std::string& why, Turn& turn) const {
  for (const auto& [id, worker] : workers_) turn.Tell(id, Shutdown{job_.options.term, why});
}

void Members::PublishRoster(std::vector<Adoption> adoptions, Turn& turn) {
  epoch_ = epoch_.Next();
  const std::set<WorkerId> came = std::exchange(came_, {});
  RosterChange change{job_.options.term, job_.generation, epoch_, {}, {}, adoptions};
  for (const WorkerId& id : came) change.came.push_back(At(id).member);
  for (const WorkerId& id : std::exchange(gone_, {})) change.gone.push_back(id);
  Roster roster{job_.options.term, job_.generation, epoch_, {}, std::move(adoptions)};
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster() && !came.empty()) roster.members.Own().push_back(worker.member);
  }
  for (const auto& [id, worker] : workers_) {
    if (!worker.InRoster()) continue;
    if (came.contains(id)) {
      turn.Tell(id, roster);
    } else {
      turn.Tell(id, change);
    }
  }
}

}  // namespace swarm::protocol
