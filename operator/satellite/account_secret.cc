#include "operator/satellite/account_secret.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace swarm::satellite {
namespace {

using nlohmann::json;

/// Another operator, or `swarmctl`, may write the Secret at the same time.
constexpr int kTriesMax = 4;

}  // namespace

std::string TextIn(const json& secret, const char* key) {
  const json::json_pointer place = json::json_pointer("/data") / key;
  if (!secret.contains(place) || !secret[place].is_string()) return "";
  return DecodeBase64(secret[place].get_ref<const std::string&>()).value_or("");
}

Result<Account> ReadAccount(kube::Client& client, const kube::ObjectName& secret) {
  ASSIGN_OR_RETURN(const kube::Object read, client.Get(kube::resources::Secrets(), secret));
  return ParseAccount(TextIn(*read, kAccount));
}

Status ChangeAccount(kube::Client& client, const kube::ObjectName& secret,
                     const std::function<Status(Account*)>& change) {
  Status written;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    ASSIGN_OR_RETURN(const kube::Object read, client.Get(kube::resources::Secrets(), secret));
    ASSIGN_OR_RETURN(const Account before, ParseAccount(TextIn(*read, kAccount)));
    Account account = before;
    RETURN_IF_ERROR(change(&account));
    if (account == before) return Status();
    const json patch = {{"metadata", {{"resourceVersion", kube::ResourceVersionOf(*read)}}},
                        {"stringData", {{kAccount, ToText(account)}}}};
    written =
        client.Patch(kube::resources::Secrets(), secret, kube::PatchType::kMerge, patch).status();
    if (written.code() != StatusCode::kAborted) break;
  }
  return written;
}

}  // namespace swarm::satellite
