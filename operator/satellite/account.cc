#include "operator/satellite/account.h"

#include <nlohmann/json.hpp>

namespace swarm::satellite {
namespace {

using nlohmann::json;

std::int64_t UnixSeconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

std::string ToText(const Account& account) {
  json tokens = json::object();
  for (const auto& [id, token] : account.tokens) {
    tokens[id] = {{"secretDigest", token.secret_digest},
                  {"cluster", token.cluster},
                  {"expires", UnixSeconds(token.expires)}};
  }
  return json{{"tokens", tokens}, {"revoked", account.revoked}}.dump();
}

Result<Account> ParseAccount(const std::string& text) {
  try {
    const json object = json::parse(text);
    Account account{.tokens = {}, .revoked = object.at("revoked").get<std::set<std::string>>()};
    for (const auto& [id, token] : object.at("tokens").items()) {
      account.tokens[id] = {
          token.at("secretDigest"), token.at("cluster"),
          WallTime(std::chrono::seconds(token.at("expires").get<std::int64_t>()))};
    }
    return account;
  } catch (const json::exception& error) {
    return InvalidArgument(std::string("no account of satellites: ") + error.what());
  }
}

Result<std::string> UseToken(const std::string& id, const std::string& secret_digest, WallTime now,
                             Account* account) {
  const auto token = account->tokens.find(id);
  if (token == account->tokens.end() || token->second.secret_digest != secret_digest) {
    return Status(StatusCode::kUnauthenticated,
                  "home has given no such token, or it was used already");
  }
  if (now >= token->second.expires) {
    return PermissionDenied(
        "the token has expired; make another one with"
        " `swarmctl satellite token`");
  }
  std::string cluster = token->second.cluster;
  account->tokens.erase(token);
  account->revoked.erase(cluster);
  return cluster;
}

}  // namespace swarm::satellite
