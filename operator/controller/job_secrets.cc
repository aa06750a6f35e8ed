#include "operator/controller/job_secrets.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "operator/names/names.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

json Encoded(const SecretContent& content) {
  json data = json::object();
  for (const auto& [key, value] : content) data[key] = EncodeBase64(value);
  return data;
}

json WithContent(json secret, const SecretContent& content) {
  secret["type"] = "Opaque";
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
constexpr int kRereadsMax = 3;

/// Another client has written the Secret since it was read.
bool IsOvertaken(const Status& status) {
  return status.code() == StatusCode::kAborted || status.code() == StatusCode::kAlreadyExists;
}

Status NotOurs(const kube::ObjectName& name) {
  return FailedPrecondition("Secret " + name.ToString() +
                            " exists and does not belong to this SwarmJob; delete or rename it");
}

}  // namespace

std::shared_ptr<JobSecrets::Held> JobSecrets::Find(const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(job_uid);
  return found == held_.end() ? nullptr : found->second;
}

void JobSecrets::Forget(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  held_.erase(job_uid);
}

Result<HeldIdentities> JobSecrets::Ensure(const kube::ObjectName& job, const std::string& job_uid,
                                          const IdentitiesWanted& wanted,
                                          const MakeSecret& make_secret, WallTime now) {
  std::shared_ptr<Held> held = Find(job_uid);
  if (held && held->wanted.workers == wanted.workers && held->wanted.trainer == wanted.trainer &&
      now < held->identities.renew_at) {
    return held->identities;
  }
  const Place place{job, job_uid, make_secret};
  const auto renew = [&]() -> Status {
    if (!held) {
      ASSIGN_OR_RETURN(held, Read(place, now));
    }
    return Renew(place, wanted, now, held.get());
  };
  Status renewed = renew();
  for (int again = 0; again < kRereadsMax && IsOvertaken(renewed); ++again) {
    held.reset();
    renewed = renew();
  }
  const std::lock_guard lock(mutex_);
  if (!renewed.ok()) {
    held_.erase(job_uid);
    return renewed;
  }
  held_[job_uid] = held;
  return held->identities;
}

Result<std::shared_ptr<JobSecrets::Held>> JobSecrets::Read(const Place& place, WallTime now) {
  ASSIGN_OR_RETURN(identity::JobAuthority authority, ReadOrMakeAuthority(place));
  auto held = std::make_shared<Held>();
  held->authority = std::make_shared<const identity::JobAuthority>(std::move(authority));
  held->identities.ca = held->authority->pair().certificate;
  const kube::ObjectName name{place.job.ns, names::IdentitiesSecretName(place.job.name)};
  const auto secret = client_.Get(kube::resources::Secrets(), name);
  if (secret.ok()) {
    if (!kube::IsOwnedBy(**secret, place.job_uid)) return NotOurs(name);
    held->pairs = JudgeIdentities(*held->authority, place.job.name, ContentOf(**secret), now);
    held->resource_version = kube::ResourceVersionOf(**secret);
  } else if (secret.status().code() != StatusCode::kNotFound) {
    return secret.status();
  }
  return held;
}

Result<identity::JobAuthority> JobSecrets::ReadOrMakeAuthority(const Place& place) {
  const kube::ObjectName name{place.job.ns, names::AuthoritySecretName(place.job.name)};
  auto secret = client_.Get(kube::resources::Secrets(), name);
  if (secret.status().code() == StatusCode::kNotFound) {
    ASSIGN_OR_RETURN(identity::JobAuthority made, identity::JobAuthority::Create(place.job_uid));
    const auto created =
        client_.Create(kube::resources::Secrets(),
                       WithContent(place.make_secret(name.name), AuthoritySecret(made)));
    if (created.ok()) return made;
    // Another operator, or an earlier try of this one, was first: use that authority.
    if (created.status().code() != StatusCode::kAlreadyExists) return created.status();
    secret = client_.Get(kube::resources::Secrets(), name);
  }
  RETURN_IF_ERROR(secret.status());
  if (!kube::IsOwnedBy(**secret, place.job_uid)) return NotOurs(name);
  auto loaded = LoadAuthority(place.job_uid, ContentOf(**secret));
  if (loaded.ok()) return loaded;
  return FailedPrecondition("Secret " + name.ToString() + ": " + loaded.status().message() +
                            "; delete it, and the operator makes a new one");
}

Result<std::string> JobSecrets::Write(const Place& place, const IdentityChange& change,
                                      const std::string& resource_version) {
  const std::string name = names::IdentitiesSecretName(place.job.name);
  kube::Object written;
  if (resource_version.empty()) {
    ASSIGN_OR_RETURN(written, client_.Create(kube::resources::Secrets(),
                                             WithContent(place.make_secret(name), change.put)));
    return kube::ResourceVersionOf(*written);
  }
  json data = Encoded(change.put);
  for (const std::string& key : change.removed) data[key] = nullptr;
  // With the version, the patch fails if the Secret is no longer the one that was judged.
  const json patch = {{"metadata", {{"resourceVersion", resource_version}}},
                      {"data", std::move(data)}};
  ASSIGN_OR_RETURN(written, client_.Patch(kube::resources::Secrets(), {place.job.ns, name},
                                          kube::PatchType::kMerge, patch));
  return kube::ResourceVersionOf(*written);
}

Status JobSecrets::Renew(const Place& place, const IdentitiesWanted& wanted, WallTime now,
                         Held* held) {
  ASSIGN_OR_RETURN(IdentityChange change,
                   ChangeIdentities(*held->authority, wanted, held->pairs, now));
  if (held->resource_version.empty() || !change.put.empty()) {
    ASSIGN_OR_RETURN(held->resource_version, Write(place, change, held->resource_version));
    held->pairs = std::move(change.held);
  }
  // renew_at follows the age of the trainer's pair, so the operator's pair must not be older.
  if (held->identities.self.key.empty() || now >= held->identities.renew_at ||
      wanted.trainer != held->wanted.trainer) {
    ASSIGN_OR_RETURN(held->identities.self,
                     held->authority->Issue("operator", identity::OperatorUri(place.job_uid)));
  }
  held->wanted = wanted;
  held->identities.renew_at = change.renew_at;
  return Status();
}

}  // namespace swarm::controller
