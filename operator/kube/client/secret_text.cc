#include "operator/kube/client/secret_text.h"

#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace swarm::kube {
namespace {

using nlohmann::json;

constexpr int kTriesMax = 4;

}  // namespace

std::string SecretText(const json& secret, const std::string& key) {
  const json::json_pointer place = json::json_pointer("/data") / key;
  if (!secret.contains(place) || !secret[place].is_string()) return "";
  return DecodeBase64(secret[place].get_ref<const std::string&>()).value_or("");
}

Status ChangeSecretText(Client& client, const ObjectName& secret, const std::string& key,
                        const std::function<Result<std::string>(const json& secret)>& change) {
  Status written;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    ASSIGN_OR_RETURN(const Object read, client.Get(resources::Secrets(), secret));
    ASSIGN_OR_RETURN(const std::string text, change(*read));
    if (text == SecretText(*read, key)) return Status();
    const json patch = {{"metadata", {{"resourceVersion", ResourceVersionOf(*read)}}},
                        {"stringData", {{key, text}}}};
    written = client.Patch(resources::Secrets(), secret, PatchType::kMerge, patch).status();
    if (written.code() != StatusCode::kAborted) break;
  }
  return written;
}

}  // namespace swarm::kube
