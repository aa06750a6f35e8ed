// The certificates of a job's pods: which ones its Secret should hold at a time. Pure, except for
// the random numbers of new keys.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/identity/authority.h"
#include "base/status.h"

namespace swarm::controller {

/// The keys and values of a Secret, without base64.
using SecretContent = std::map<std::string, std::string>;

/// The wall clock, which the validity of certificates uses.
using WallTime = std::chrono::system_clock::time_point;

/// The pods for which a job needs certificates.
struct IdentitiesWanted {
  std::string job;                   ///< name of the SwarmJob
  std::vector<std::string> workers;  ///< worker ids, which are the names of the pods
  bool trainer = true;
};

/// The content of the Secret of identities, without the keys themselves.
struct HeldPairs {
  /// Whether its ca.crt is the one of the job.
  bool has_authority = false;
  /// The valid pairs: the identity, and when half of its validity is over.
  std::map<std::string, WallTime> good;
  /// The keys that belong to none of these.
  std::set<std::string> others;
};

/// The change that makes the Secret correct.
struct IdentityChange {
  SecretContent put;
  std::set<std::string> removed;
  HeldPairs held;     ///< after the change
  WallTime renew_at;  ///< when the next change is due for the same wanted pods
};

/// The content of the authority's Secret: ca.crt and ca.key.
SecretContent AuthoritySecret(const identity::JobAuthority& authority);
/// Errors: kInvalidArgument, the content is not an authority.
Result<identity::JobAuthority> LoadAuthority(const std::string& job_uid,
                                             const SecretContent& content);

/// Judges the Secret of identities of the SwarmJob `job`: ca.crt, and IDENTITY.crt and IDENTITY.key
/// for the trainer and for each worker (names.h). A pair is good if this authority issued it for
/// the right identity, and it is in the first half of its validity.
HeldPairs JudgeIdentities(const identity::JobAuthority& authority, const std::string& job,
                          const SecretContent& content, WallTime now);

/// Keeps the pairs that are good and wanted, issues the other wanted ones, and removes the rest.
Result<IdentityChange> ChangeIdentities(const identity::JobAuthority& authority,
                                        const IdentitiesWanted& wanted, const HeldPairs& held,
                                        WallTime now);

}  // namespace swarm::controller
