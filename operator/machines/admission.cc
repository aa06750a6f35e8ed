#include "operator/machines/admission.h"

#include <algorithm>
#include <vector>

#include "operator/names/names.h"

namespace swarm::machines {
namespace {

using api::MachineStatus;

api::WallTime EndOf(WallTime now) {
  return api::WholeSeconds(now) +
         std::chrono::duration_cast<api::WallTime::duration>(kCertificateValidity);
}

std::vector<MachineStatus>::iterator Find(std::uint64_t ordinal, api::SwarmJobStatus* status) {
  return std::ranges::find(status->machines, ordinal, &MachineStatus::ordinal);
}

}  // namespace

Status MayJoin(const api::Spec& spec, const api::SwarmJobStatus& status, const std::string& name) {
  if (status.state == api::JobState::kSucceeded || status.state == api::JobState::kFailed) {
    return FailedPrecondition("the job is over");
  }
  const auto pool = std::ranges::find(spec.workers.machinePools, name, &api::MachinePool::name);
  if (pool == spec.workers.machinePools.end()) {
    return PermissionDenied("the job has no pool " + name +
                            " in spec.workers.machinePools, so no machine joins it there");
  }
  const auto there = std::ranges::count(status.machines, name, &MachineStatus::pool);
  if (pool->maxReplicas && static_cast<std::uint64_t>(there) >= *pool->maxReplicas) {
    return ResourceExhausted("the pool " + name + " has " + std::to_string(there) +
                             " machines, its maxReplicas; a machine that has left frees its place"
                             " within two hours, or when it is revoked");
  }
  return Status();
}

std::uint64_t Admit(const std::string& pool, const std::string& token, WallTime now,
                    api::SwarmJobStatus* status) {
  const std::uint64_t ordinal = status->nextWorkerOrdinal++;
  status->machines.push_back({ordinal, pool, token, EndOf(now)});
  return ordinal;
}

std::optional<std::uint64_t> OrdinalOf(const std::string& job, const std::string& worker) {
  const std::string prefix = names::WorkerPrefix(job);
  if (!worker.starts_with(prefix)) return std::nullopt;
  return names::ParseNumber(std::string_view(worker).substr(prefix.size()));
}

Status MayRenew(std::uint64_t ordinal, const api::SwarmJobStatus& status) {
  if (ordinal >= status.nextWorkerOrdinal) {
    return Unavailable("home does not know this machine yet; ask again");
  }
  const auto found = std::ranges::find(status.machines, ordinal, &MachineStatus::ordinal);
  if (found != status.machines.end()) return Status();
  return PermissionDenied("the owner of the job has put this machine out, or it was away for long");
}

Status Renew(std::uint64_t ordinal, WallTime now, api::SwarmJobStatus* status) {
  RETURN_IF_ERROR(MayRenew(ordinal, *status));
  Find(ordinal, status)->certificateEnds = EndOf(now);
  return Status();
}

bool Prune(const Account& account, WallTime now, api::SwarmJobStatus* status) {
  return std::erase_if(status->machines, [&](const MachineStatus& machine) {
           return account.revoked.contains(machine.ordinal) ||
                  !account.tokens.contains(machine.token) ||
                  now >= WallTime(machine.certificateEnds) + kAfterCertificate;
         }) > 0;
}

}  // namespace swarm::machines
