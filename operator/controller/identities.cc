#include "operator/controller/identities.h"

#include <algorithm>
#include <optional>

namespace swarm::controller {
namespace {

constexpr char kAuthorityCertificate[] = "ca.crt";
constexpr char kAuthorityKey[] = "ca.key";

std::string Find(const SecretContent& content, const std::string& key) {
  const auto found = content.find(key);
  return found == content.end() ? std::string() : found->second;
}

/// When a pair is to be renewed; none if it is no good now.
std::optional<WallTime> RenewalOf(const identity::KeyPair& pair, const std::string& uri,
                                  WallTime now) {
  if (!identity::CheckPair(pair, "certificate", "key").ok()) return std::nullopt;
  const auto facts = identity::ReadCertificate(pair.certificate, "certificate");
  if (!facts.ok() || facts->uris != std::vector{uri}) return std::nullopt;
  const WallTime half = facts->not_before + (facts->not_after - facts->not_before) / 2;
  if (now < facts->not_before || now >= half) return std::nullopt;
  return half;
}

/// Fills one Secret, taking over from an older one what is still good.
class Renewal {
 public:
  Renewal(const identity::JobAuthority& authority, const SecretContent& current, WallTime now)
      : authority_(authority),
        current_(current),
        now_(now),
        same_authority_(Find(current, kAuthorityCertificate) == authority.pair().certificate) {
    made_.content[kAuthorityCertificate] = authority.pair().certificate;
    made_.renew_at = now + identity::kLeafValidity / 2;
  }

  Status Add(const std::string& stem, const std::string& uri) {
    identity::KeyPair pair{Find(current_, stem + ".crt"), Find(current_, stem + ".key")};
    const auto renewal = same_authority_ ? RenewalOf(pair, uri, now_) : std::nullopt;
    if (renewal) {
      made_.renew_at = std::min(made_.renew_at, *renewal);
    } else {
      ASSIGN_OR_RETURN(pair, authority_.Issue(stem, uri));
    }
    made_.content[stem + ".crt"] = std::move(pair.certificate);
    made_.content[stem + ".key"] = std::move(pair.key);
    return Status();
  }

  Identities Take() { return std::move(made_); }

 private:
  const identity::JobAuthority& authority_;
  const SecretContent& current_;
  const WallTime now_;
  const bool same_authority_;
  Identities made_;
};

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

Result<Identities> RenewIdentities(const identity::JobAuthority& authority,
                                   const IdentitiesWanted& wanted, const SecretContent& current,
                                   WallTime now) {
  Renewal renewal(authority, current, now);
  if (wanted.trainer) {
    RETURN_IF_ERROR(renewal.Add("trainer", identity::TrainerUri(authority.job_uid())));
  }
  for (const std::string& worker : wanted.workers) {
    const std::string prefix = wanted.job + "-";
    if (!worker.starts_with(prefix)) {
      return InvalidArgument("worker " + worker + " is not of job " + wanted.job);
    }
    RETURN_IF_ERROR(renewal.Add(worker.substr(prefix.size()),
                                identity::WorkerUri(authority.job_uid(), worker)));
  }
  return renewal.Take();
}

}  // namespace swarm::controller
