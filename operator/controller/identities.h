// The certificates of a job's pods: which pairs a Secret should hold at a time. Pure, except for
// the random numbers of new keys.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/identity/authority.h"
#include "base/status.h"
#include "operator/plan/observed.h"

namespace swarm::controller {

/// The keys and values of a Secret, without base64.
using SecretContent = std::map<std::string, std::string>;

/// The wall clock, which the validity of certificates uses.
using WallTime = std::chrono::system_clock::time_point;

/// The pairs that a Secret should hold: the URI in the certificate, by the name of the pair. The
/// Secret's keys are NAME.crt and NAME.key, and ca.crt.
using PairsWanted = std::map<std::string, std::string>;

/// The name of the pair in the Secret of one pod, as Kubernetes' type for it wants.
inline constexpr const char* kOwnPair = "tls";

/// The change that makes a Secret correct.
struct PairsChange {
  SecretContent put;              ///< empty: the Secret is correct
  std::set<std::string> removed;  ///< keys that nobody needs; no reason to write
  WallTime renew_at;              ///< when the next change of these pairs is due
};

/// The content of the authority's Secret: ca.crt and ca.key.
SecretContent AuthoritySecret(const identity::JobAuthority& authority);
/// Errors: kInvalidArgument, the content is not an authority.
Result<identity::JobAuthority> LoadAuthority(const std::string& job_uid,
                                             const SecretContent& content);

/// Keeps the pairs that are wanted and good, and issues the other wanted ones. A pair is good if
/// this authority issued it for the right identity, and it is in the first half of its validity.
Result<PairsChange> ChangePairs(const identity::JobAuthority& authority, const PairsWanted& wanted,
                                const SecretContent& content, WallTime now);

/// The URI of the pod's identity.
std::string IdentityOf(const std::string& job_uid, const plan::ObservedPod& pod);

/// Whether a program of the pod runs or will run, and needs a pair that is made for it.
bool NeedsIdentity(const plan::ObservedPod& pod);

/// When the pair of a pod is to be renewed, as far as the pod itself shows. It was made with the
/// pod, and a program of the pod runs only after its Secret was mounted. None: it does not show.
/// `authority_since`: pairs of older pods may be of another authority.
std::optional<WallTime> RenewalShownBy(const plan::ObservedPod& pod, WallTime authority_since,
                                       WallTime now);

}  // namespace swarm::controller
