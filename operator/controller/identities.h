// The certificates of a job's pods: which its Secret should hold at a moment. Pure but for the
// random numbers of new keys.
#pragma once

#include <chrono>
#include <map>
#include <set>
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
  std::string job;                   ///< name of the SwarmJob
  std::vector<std::string> workers;  ///< worker ids: names of pods, JOB-wN
  bool trainer = true;
};

/// What a Secret JOB-identities holds, without the keys themselves.
struct HeldPairs {
  /// Its ca.crt is that of the job.
  bool has_authority = false;
  /// "trainer" or "wN", and when that pair is half through its life.
  std::map<std::string, WallTime> good;
  /// Keys that belong to none of these.
  std::set<std::string> others;
};

/// What makes of it what it should be.
struct IdentityChange {
  SecretContent put;
  std::set<std::string> removed;
  HeldPairs held;     ///< afterwards
  WallTime renew_at;  ///< when something is to be changed even if the same is wanted
};

/// The Secret JOB-ca: ca.crt and ca.key.
SecretContent AuthoritySecret(const identity::JobAuthority& authority);
/// Errors: kInvalidArgument (it does not hold an authority).
Result<identity::JobAuthority> LoadAuthority(const std::string& job_uid,
                                             const SecretContent& content);

/// Judges the Secret JOB-identities of the SwarmJob `job`: ca.crt, trainer.crt, trainer.key, and
/// for each worker JOB-wN wN.crt and wN.key. Good is a pair of this authority for the right
/// identity in the first half of its life.
HeldPairs JudgeIdentities(const identity::JobAuthority& authority, const std::string& job,
                          const SecretContent& content, WallTime now);

/// What is good and wanted stays as it is. The rest is issued anew, or removed.
Result<IdentityChange> ChangeIdentities(const identity::JobAuthority& authority,
                                        const IdentitiesWanted& wanted, const HeldPairs& held,
                                        WallTime now);

}  // namespace swarm::controller
