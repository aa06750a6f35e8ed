#include "worker/protocol/coordinator/membership/members.h"

#include <utility>

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

void Members::Erase(const WorkerId& id) {
  workers_.erase(id);
  leaving_.erase(id);
}

Leave& Members::BeginLeave(Worker& worker) {
  if (!worker.leave_) worker.leave_.emplace();
  leaving_.insert(worker.member.id);
  return *worker.leave_;
}

void Members::EndLeave(Worker& worker) {
  worker.leave_.reset();
  leaving_.erase(worker.member.id);
}

std::vector<WorkerId> Members::Replicas(StageIndex stage) const {
  std::vector<WorkerId> replicas;
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster() && worker.member.stage == stage) replicas.push_back(id);
  }
  return replicas;
}

std::vector<WorkerId> Members::ReadyReplicas(StageIndex stage) const {
  std::vector<WorkerId> replicas;
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kReady && worker.member.stage == stage) replicas.push_back(id);
  }
  return replicas;
}

std::vector<WorkerId> Members::StayingReplicas(StageIndex stage) const {
  std::vector<WorkerId> replicas = ReadyReplicas(stage);
  std::erase_if(replicas, [&](const WorkerId& id) { return leaving_.contains(id); });
  return replicas;
}

std::vector<std::vector<WorkerId>> Members::RoutableReplicas() const {
  std::vector<std::vector<WorkerId>> replicas(job_.stages());
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    replicas[s] = StayingReplicas(StageIndex(s));
    if (replicas[s].empty()) replicas[s] = ReadyReplicas(StageIndex(s));
  }
  return replicas;
}

std::optional<StageIndex> Members::FindEmptyStage() const {
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (ReadyReplicas(StageIndex(s)).empty()) return StageIndex(s);
  }
  return std::nullopt;
}

void Members::Dismiss(const std::string& why, Turn& turn) const {
  for (const auto& [id, worker] : workers_) turn.Tell(id, Shutdown{job_.options.term, why});
}

void Members::PublishRoster(std::vector<Adoption> adoptions, Turn& turn) {
  epoch_ = epoch_.Next();
  Roster roster{job_.options.term, job_.generation, epoch_, {}, std::move(adoptions)};
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster()) roster.members.push_back(worker.member);
  }
  Broadcast(roster, turn);
}

}  // namespace swarm::protocol
