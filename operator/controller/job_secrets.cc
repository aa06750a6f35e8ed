#include "operator/controller/job_secrets.h"

#include "base/base64.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

json Encoded(const SecretContent& content) {
  json data = json::object();
  for (const auto& [key, value] : content) data[key] = EncodeBase64(value);
  return data;
}

json WithContent(json secret, const SecretContent& content) {
  secret["data"] = Encoded(content);
  return secret;
}

/// A value that is not base64 counts as absent, so it is written anew.
SecretContent ContentOf(const json& secret) {
  SecretContent content;
  const auto data = secret.find("data");
  if (data == secret.end() || !data->is_object()) return content;
  for (const auto& [key, value] : data->items()) {
    if (!value.is_string()) continue;
    if (auto decoded = DecodeBase64(value.get_ref<const std::string&>())) {
      content[key] = *std::move(decoded);
    }
  }
  return content;
}

/// Another operator may write the same Secret at the same time.
constexpr int kTriesMax = 4;

/// Whether the Secret is owned as `wanted` is. Otherwise says so.
Status CheckOwner(const json& found, const json& wanted) {
  const std::string owner = kube::TextAt(wanted, "/metadata/ownerReferences/0/uid");
  if (kube::IsOwnedBy(found, owner)) return Status();
  return FailedPrecondition(
      "Secret " + kube::NameOf(wanted).ToString() + " exists and does not belong to " +
      kube::TextAt(wanted, "/metadata/ownerReferences/0/kind") + " " +
      kube::TextAt(wanted, "/metadata/ownerReferences/0/name") + "; delete or rename it");
}

}  // namespace

std::shared_ptr<const JobSecrets::Held> JobSecrets::Find(const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(job_uid);
  return found == held_.end() ? nullptr : found->second;
}

void JobSecrets::Forget(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  held_.erase(job_uid);
}

Result<OwnIdentity> JobSecrets::Hold(const std::string& job_uid, const json& secret, WallTime now) {
  if (const auto held = Find(job_uid); held && now < held->own.renew_at) return held->own;
  ASSIGN_OR_RETURN(identity::JobAuthority authority, ReadOrMakeAuthority(job_uid, secret));
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::ReadCertificate(authority.pair().certificate, "ca.crt"));
  ASSIGN_OR_RETURN(identity::KeyPair self,
                   authority.Issue("operator", identity::OperatorUri(job_uid)));
  OwnIdentity own{authority.pair().certificate, std::move(self), now + identity::kLeafValidity / 2,
                  facts.not_before};
  const std::lock_guard lock(mutex_);
  held_[job_uid] = std::make_shared<const Held>(Held{std::move(authority), own});
  return own;
}

Result<identity::JobAuthority> JobSecrets::ReadOrMakeAuthority(const std::string& job_uid,
                                                               const json& wanted) {
  const kube::ObjectName name = kube::NameOf(wanted);
  auto secret = client_.Get(kube::resources::Secrets(), name);
  if (secret.status().code() == StatusCode::kNotFound) {
    ASSIGN_OR_RETURN(identity::JobAuthority made, identity::JobAuthority::Create(job_uid));
    const auto created =
        client_.Create(kube::resources::Secrets(), WithContent(wanted, AuthoritySecret(made)));
    if (created.ok()) return made;
    // Another operator, or an earlier try of this one, was first: use that authority.
    if (created.status().code() != StatusCode::kAlreadyExists) return created.status();
    secret = client_.Get(kube::resources::Secrets(), name);
  }
  RETURN_IF_ERROR(secret.status());
  RETURN_IF_ERROR(CheckOwner(**secret, wanted));
  auto loaded = LoadAuthority(job_uid, ContentOf(**secret));
  if (loaded.ok()) return loaded;
  return FailedPrecondition("Secret " + name.ToString() + " contains no authority (" +
                            loaded.status().message() + "); delete it to get a new one");
}

Result<WallTime> JobSecrets::Make(kube::Client& client, const std::string& job_uid,
                                  const SecretOfPairs& secret, WallTime now) {
  const auto held = Find(job_uid);
  SWARM_CHECK(held != nullptr, "the authority of job " + job_uid + " is not held");
  auto made = Create(client, held->authority, secret, now);
  if (made.status().code() != StatusCode::kAlreadyExists) return made;
  return Check(client, job_uid, secret, now);
}

Result<WallTime> JobSecrets::Check(kube::Client& client, const std::string& job_uid,
                                   const SecretOfPairs& secret, WallTime now) {
  const auto held = Find(job_uid);
  SWARM_CHECK(held != nullptr, "the authority of job " + job_uid + " is not held");
  Result<WallTime> checked = Correct(client, held->authority, secret, now);
  for (int tries = 1; tries < kTriesMax; ++tries) {
    const StatusCode code = checked.status().code();
    if (code == StatusCode::kNotFound) {
      checked = Create(client, held->authority, secret, now);
    } else if (code == StatusCode::kAborted || code == StatusCode::kAlreadyExists) {
      checked = Correct(client, held->authority, secret, now);
    } else {
      break;
    }
  }
  return checked;
}

Result<JobSecrets::Signed> JobSecrets::Sign(const std::string& job_uid, const std::string& request,
                                            const std::string& name, const std::string& uri,
                                            std::chrono::seconds validity) const {
  const auto held = Find(job_uid);
  if (!held) {
    return Unavailable("the authority of the job " + job_uid + " is not there yet; try again soon");
  }
  ASSIGN_OR_RETURN(std::string certificate, held->authority.Sign(request, name, uri, validity));
  return Signed{std::move(certificate), held->own.ca};
}

Result<WallTime> JobSecrets::Create(kube::Client& client, const identity::JobAuthority& authority,
                                    const SecretOfPairs& secret, WallTime now) {
  ASSIGN_OR_RETURN(const PairsChange change, ChangePairs(authority, secret.pairs, {}, now));
  RETURN_IF_ERROR(client
                      .Create(kube::resources::Secrets(), WithContent(secret.object, change.put),
                              {.metadata_only = true})
                      .status());
  return change.renew_at;
}

Result<WallTime> JobSecrets::Correct(kube::Client& client, const identity::JobAuthority& authority,
                                     const SecretOfPairs& secret, WallTime now) {
  const kube::ObjectName name = kube::NameOf(secret.object);
  ASSIGN_OR_RETURN(const kube::Object found, client.Get(kube::resources::Secrets(), name));
  RETURN_IF_ERROR(CheckOwner(*found, secret.object));
  ASSIGN_OR_RETURN(const PairsChange change,
                   ChangePairs(authority, secret.pairs, ContentOf(*found), now));
  if (change.put.empty()) return change.renew_at;
  json data = Encoded(change.put);
  for (const std::string& key : change.removed) data[key] = nullptr;
  // With the version, the patch fails if the Secret is no longer the one that was judged.
  const json patch = {{"metadata", {{"resourceVersion", kube::ResourceVersionOf(*found)}}},
                      {"data", std::move(data)}};
  RETURN_IF_ERROR(
      client.Patch(kube::resources::Secrets(), name, kube::PatchType::kMerge, patch).status());
  return change.renew_at;
}

}  // namespace swarm::controller
