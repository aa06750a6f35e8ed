#include "worker/protocol/coordinator/rollbacks.h"

#include <algorithm>
#include <utility>

namespace swarm::protocol {

void Rollbacks::Stop(StageIndex lost, Turn& turn) {
  job_.Enter(Phase::kStageLost, turn.now);
  turn.Report(
      EventKind::kStageLost,
      "stage " + std::to_string(lost.value) + " has no replica left" +
          (members_.ReadyReplicas(lost).empty() ? ""
                                                : " that holds some of the optimizer's moments") +
          "; the job goes back to its last checkpoint when it has "
          "one",
      {.stage = lost});
}

std::optional<std::vector<std::vector<WorkerId>>> Rollbacks::Staff() const {
  std::vector<std::vector<WorkerId>> staff(job_.stages());
  std::vector<WorkerId> spares;
  for (const auto& [id, worker] : members_.all()) {
    if (worker.leave()) continue;
    (worker.role() == Role::kWaiting ? spares : staff[worker.member.stage.value]).push_back(id);
  }
  const auto largest = [&]() -> std::vector<WorkerId>& {
    return *std::max_element(staff.begin(), staff.end(),
                             [](const auto& a, const auto& b) { return a.size() < b.size(); });
  };
  for (auto& replicas : staff) {
    if (!replicas.empty()) continue;
    auto& from = spares.empty() ? largest() : spares;
    if (from.empty() || (&from != &spares && from.size() < 2)) return std::nullopt;
    replicas.push_back(from.back());
    from.pop_back();
  }
  return staff;
}

void Rollbacks::BeginIfStaffed(Turn& turn) {
  if (job_.phase != Phase::kStageLost) return;
  const auto staff = Staff();
  if (!staff) return;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    for (const WorkerId& id : (*staff)[s]) {
      Worker& worker = members_.At(id);
      worker.loaded = false;
      members_.SetVersion(worker, {});
      members_.Become(worker, worker.role(), StageIndex(s));
      worker.assigned = true;
    }
  }
  job_.Enter(Phase::kRollingBack, turn.now);
  turn.orders.push_back(order::BeginGeneration{job_.generation.Next(), doubted_});
}

void Rollbacks::Doubt(Turn& turn) {
  const bool loading = job_.phase == Phase::kWaiting || job_.phase == Phase::kLoading;
  if (!loading || job_.begin_uri.empty()) return;
  doubted_ = true;
  job_.Enter(Phase::kStageLost, turn.now);
}

void Rollbacks::OnBegun(Generation generation, Version version, const std::string& uri,
                        const Digest& manifest, Turn& turn) {
  job_.generation = generation;
  job_.version = version;
  job_.begin_uri = uri;
  job_.begin_manifest = manifest;
  doubted_ = false;
  members_.holders().Clear();
  job_.Enter(Phase::kLoading, turn.now);
  std::vector<std::uint64_t> staff(job_.stages(), 0);
  for (auto& [id, worker] : members_.all()) {
    if (!std::exchange(worker.assigned, false)) continue;
    const StageIndex stage = worker.member.stage;
    ++staff[stage.value];
    if (worker.role() == Role::kWaiting) {
      turn.Tell(id, job_.WelcomeTo(stage));
    } else {
      turn.Tell(id, Rollback{job_.options.term, job_.generation, stage, version, uri, manifest});
    }
    members_.Become(worker, Role::kLoading);
    worker.since = turn.now;
  }
  ++job_.counts.rollbacks;
  turn.Report(EventKind::kRolledBack, "to version " + std::to_string(version.value) +
                                          ", as generation " + std::to_string(generation.value));
  if (std::find(staff.begin(), staff.end(), 0) != staff.end()) {  // lost meanwhile
    job_.phase = Phase::kStageLost;
    BeginIfStaffed(turn);
  }
}

}  // namespace swarm::protocol
