#include "operator/controller/identities.h"

#include <algorithm>
#include <optional>

#include "operator/names/names.h"

namespace swarm::controller {
namespace {

constexpr char kAuthorityCertificate[] = "ca.crt";
constexpr char kAuthorityKey[] = "ca.key";
constexpr const char* kCertificate = ".crt";
constexpr const char* kKey = ".key";

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

std::string UriOf(const identity::JobAuthority& authority, const std::string& job,
                  const std::string& stem) {
  return stem == names::kTrainerIdentity
             ? identity::TrainerUri(authority.job_uid())
             : identity::WorkerUri(authority.job_uid(), names::WorkerOfIdentity(job, stem));
}

/// The identities whose pairs are wanted: what the keys of the Secret begin with.
Result<std::vector<std::string>> StemsOf(const IdentitiesWanted& wanted) {
  std::vector<std::string> stems;
  if (wanted.trainer) stems.emplace_back(names::kTrainerIdentity);
  for (const std::string& worker : wanted.workers) {
    auto identity = names::IdentityOfWorker(wanted.job, worker);
    if (!identity) return InvalidArgument("worker " + worker + " is not of job " + wanted.job);
    stems.push_back(*std::move(identity));
  }
  return stems;
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

HeldPairs JudgeIdentities(const identity::JobAuthority& authority, const std::string& job,
                          const SecretContent& content, WallTime now) {
  HeldPairs held;
  held.has_authority = Find(content, kAuthorityCertificate) == authority.pair().certificate;
  for (const auto& [key, value] : content) {
    if (key == kAuthorityCertificate) continue;
    const std::string stem = key.substr(0, key.rfind('.'));
    if (!held.good.contains(stem)) {
      const identity::KeyPair pair{Find(content, stem + kCertificate), Find(content, stem + kKey)};
      const auto renewal =
          held.has_authority ? RenewalOf(pair, UriOf(authority, job, stem), now) : std::nullopt;
      if (renewal) held.good.emplace(stem, *renewal);
    }
    const bool in_pair = key == stem + kCertificate || key == stem + kKey;
    if (!in_pair || !held.good.contains(stem)) held.others.insert(key);
  }
  return held;
}

Result<IdentityChange> ChangeIdentities(const identity::JobAuthority& authority,
                                        const IdentitiesWanted& wanted, const HeldPairs& held,
                                        WallTime now) {
  ASSIGN_OR_RETURN(const std::vector<std::string> stems, StemsOf(wanted));
  IdentityChange change;
  change.held.has_authority = true;
  change.removed = held.others;
  change.renew_at = now + identity::kLeafValidity / 2;
  if (!held.has_authority) change.put[kAuthorityCertificate] = authority.pair().certificate;
  for (const std::string& stem : stems) {
    const auto good = held.good.find(stem);
    WallTime half = now + identity::kLeafValidity / 2;
    if (good != held.good.end() && now < good->second) {
      half = good->second;
    } else {
      ASSIGN_OR_RETURN(identity::KeyPair pair,
                       authority.Issue(stem, UriOf(authority, wanted.job, stem)));
      for (auto [suffix, value] :
           {std::pair(kCertificate, &pair.certificate), std::pair(kKey, &pair.key)}) {
        change.removed.erase(stem + suffix);
        change.put[stem + suffix] = std::move(*value);
      }
    }
    change.held.good.emplace(stem, half);
    change.renew_at = std::min(change.renew_at, half);
  }
  for (const auto& [stem, half] : held.good) {
    if (change.held.good.contains(stem)) continue;
    change.removed.insert({stem + kCertificate, stem + kKey});
  }
  return change;
}

}  // namespace swarm::controller
