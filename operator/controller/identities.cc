#include "operator/controller/identities.h"

#include <algorithm>

namespace swarm::controller {
namespace {

constexpr char kAuthorityCertificate[] = "ca.crt";
constexpr char kAuthorityKey[] = "ca.key";
constexpr const char* kCertificate = ".crt";
constexpr const char* kKey = ".key";
constexpr std::chrono::seconds kHalfOfLife = identity::kLeafValidity / 2;

std::string Find(const SecretContent& content, const std::string& key) {
  const auto found = content.find(key);
  return found == content.end() ? std::string() : found->second;
}

/// When a pair must be renewed; none: it is not valid now.
std::optional<WallTime> RenewalOf(const identity::KeyPair& pair, const std::string& uri,
                                  WallTime now) {
  if (!identity::CheckPair(pair, "certificate", "key").ok()) return std::nullopt;
  const auto facts = identity::ReadCertificate(pair.certificate, "certificate");
  if (!facts.ok() || facts->uris != std::vector{uri}) return std::nullopt;
  const WallTime half = facts->not_before + (facts->not_after - facts->not_before) / 2;
  if (now < facts->not_before || now >= half) return std::nullopt;
  return half;
}

}  // namespace

SecretContent AuthoritySecret(const identity::JobAuthority& authority) {
  return {{kAuthorityCertificate, authority.pair().certificate},
          {kAuthorityKey, authority.pair().key}};
}

Result<identity::JobAuthority> LoadAuthority(const std::string& job_uid,
                                             const SecretContent& content) {
  return identity::JobAuthority::Load(
      job_uid, {Find(content, kAuthorityCertificate), Find(content, kAuthorityKey)});
}

Result<PairsChange> ChangePairs(const identity::JobAuthority& authority, const PairsWanted& wanted,
                                const SecretContent& content, WallTime now) {
  PairsChange change;
  for (const auto& [key, value] : content) change.removed.insert(key);
  change.removed.erase(kAuthorityCertificate);
  change.renew_at = now + kHalfOfLife;
  const bool is_ours = Find(content, kAuthorityCertificate) == authority.pair().certificate;
  if (!is_ours) change.put[kAuthorityCertificate] = authority.pair().certificate;
  for (const auto& [name, uri] : wanted) {
    const std::string certificate = name + kCertificate, key = name + kKey;
    change.removed.erase(certificate);
    change.removed.erase(key);
    const auto renewal = is_ours
                             ? RenewalOf({Find(content, certificate), Find(content, key)}, uri, now)
                             : std::nullopt;
    if (renewal) {
      change.renew_at = std::min(change.renew_at, *renewal);
      continue;
    }
    ASSIGN_OR_RETURN(identity::KeyPair pair, authority.Issue(name, uri));
    change.put[certificate] = std::move(pair.certificate);
    change.put[key] = std::move(pair.key);
  }
  return change;
}

std::string IdentityOf(const std::string& job_uid, const plan::ObservedPod& pod) {
  return pod.role == plan::PodRole::kTrainer ? identity::TrainerUri(job_uid)
                                             : identity::WorkerUri(job_uid, pod.name);
}

bool NeedsIdentity(const plan::ObservedPod& pod) {
  return !pod.unseen && !pod.proves_itself && !pod.deleted && !pod.end &&
         pod.phase != plan::PodPhase::kSucceeded && pod.phase != plan::PodPhase::kFailed;
}

std::optional<WallTime> RenewalShownBy(const plan::ObservedPod& pod, WallTime authority_since,
                                       WallTime now) {
  const WallTime half = pod.created + kHalfOfLife;
  if (pod.phase != plan::PodPhase::kRunning || pod.created < authority_since || now >= half) {
    return std::nullopt;
  }
  return half;
}

}  // namespace swarm::controller
