// The certificates of a job's pods: which its Secret should hold at a moment. Pure but for the
// random numbers of new keys.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/identity/authority.h"
#include "base/status.h"

namespace swarm::controller {

/// The keys and values of a Secret, not in base64.
using SecretContent = std::map<std::string, std::string>;

/// The wall clock, which certificates are dated by.
using WallTime = std::chrono::system_clock::time_point;

/// Whose certificates a job needs.
struct IdentitiesWanted {
  std::string job;                    ///< name of the SwarmJob
  std::vector<std::string> workers;   ///< worker ids: names of pods, JOB-wN
  bool trainer = true;
};

struct Identities {
  SecretContent content;
  WallTime renew_at;  ///< when the first of them is half through its life
};

/// The Secret JOB-ca: ca.crt and ca.key.
SecretContent AuthoritySecret(const identity::JobAuthority& authority);
/// Errors: kInvalidArgument (it does not hold an authority).
Result<identity::JobAuthority> LoadAuthority(const std::string& job_uid,
                                             const SecretContent& content);

/// The Secret JOB-identities: ca.crt, trainer.crt, trainer.key, and for each worker JOB-wN wN.crt
/// and wN.key. What `current` has and is still good stays as it is, to the byte: good is a pair of
/// this authority for the right identity in the first half of its life. The rest is issued anew;
/// what nobody wanted is gone.
Result<Identities> RenewIdentities(const identity::JobAuthority& authority,
                                   const IdentitiesWanted& wanted, const SecretContent& current,
                                   WallTime now);

}  // namespace swarm::controller
