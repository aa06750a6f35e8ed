// Which machines may take part in a job: its status says so, and nothing else counts. Pure.
//
// A machine gets an ordinal of the job's workers, which no pod and no other machine ever has. As
// long as the status lists the machine, its certificate counts; after that the trainer tells all
// workers that it does not (plan/pods/gone.h), as for a pod that is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "api/status.h"
#include "api/swarmjob.h"
#include "base/status.h"
#include "operator/machines/account.h"

namespace swarm::machines {

/// How long a machine's certificate is valid.
inline constexpr std::chrono::seconds kCertificateValidity = std::chrono::hours(1);
/// A machine whose certificate has ended may still be at work, on connections that it has made
/// before: home may have been away. After this it is out.
inline constexpr std::chrono::seconds kAfterCertificate = std::chrono::hours(1);

/// Whether machines may join a job in this state, by this pool. Errors: kPermissionDenied (the
/// manifest has no such pool any more), kFailedPrecondition (the job is over), kResourceExhausted
/// (the pool has its maxReplicas).
Status MayJoin(const api::Spec& spec, const api::SwarmJobStatus& status, const std::string& pool);

/// Reserves an ordinal, and lists the machine. Requires: MayJoin.
std::uint64_t Admit(const std::string& pool, const std::string& token, WallTime now,
                    api::SwarmJobStatus* status);

/// The machine whose worker has this id; none: it is no id of a worker of this job.
std::optional<std::uint64_t> OrdinalOf(const std::string& job, const std::string& worker);

/// Whether the machine may have the next certificate. Errors: kPermissionDenied (it is out),
/// kUnavailable (`status` is older than the machine; ask again).
Status MayRenew(std::uint64_t ordinal, const api::SwarmJobStatus& status);
/// Notes that it has one. Errors: those of MayRenew.
Status Renew(std::uint64_t ordinal, WallTime now, api::SwarmJobStatus* status);

/// Takes from the list the machines that are out: revoked, or with a token that was, or whose
/// certificate has ended long ago. Returns whether there were any.
bool Prune(const Account& account, WallTime now, api::SwarmJobStatus* status);

}  // namespace swarm::machines
