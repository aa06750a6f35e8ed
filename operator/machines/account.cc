#include "operator/machines/account.h"

#include <nlohmann/json.hpp>

namespace swarm::machines {
namespace {

using nlohmann::json;

constexpr char kBetween = '.';

}  // namespace

std::string ToText(const Account& account) {
  json tokens = json::object();
  for (const auto& [name, token] : account.tokens) {
    const auto expires =
        std::chrono::duration_cast<std::chrono::seconds>(token.expires.time_since_epoch());
    tokens[name] = {{"secretDigest", token.secret_digest},
                    {"pool", token.pool},
                    {"expires", expires.count()},
                    {"usesLeft", token.uses_left}};
  }
  return json{{"tokens", tokens}, {"revoked", account.revoked}}.dump();
}

Result<Account> ParseAccount(const std::string& text) {
  try {
    const json object = json::parse(text);
    Account account{.tokens = {}, .revoked = object.at("revoked").get<std::set<std::uint64_t>>()};
    for (const auto& [name, token] : object.at("tokens").items()) {
      account.tokens[name] = {
          token.at("secretDigest"), token.at("pool"),
          WallTime(std::chrono::seconds(token.at("expires").get<std::int64_t>())),
          token.at("usesLeft")};
    }
    return account;
  } catch (const json::exception& error) {
    return InvalidArgument(std::string("no account of join tokens: ") + error.what());
  }
}

std::string ToText(const TokenId& id) { return id.job_uid + kBetween + id.name; }

Result<TokenId> ParseTokenId(const std::string& text) {
  const std::size_t between = text.find(kBetween);
  if (between == 0 || between == text.npos || between + 1 == text.size()) {
    return Status(StatusCode::kUnauthenticated, "home has given no such token");
  }
  return TokenId{text.substr(0, between), text.substr(between + 1)};
}

Result<Token> FindToken(const Account& account, const std::string& name,
                        const std::string& secret_digest, WallTime now) {
  const auto token = account.tokens.find(name);
  if (token == account.tokens.end() || token->second.secret_digest != secret_digest) {
    return Status(StatusCode::kUnauthenticated, "home has given no such token, or it was revoked");
  }
  const std::string remedy = "; ask for another one, of `swarmctl token create`";
  if (now >= token->second.expires) return PermissionDenied("the token has expired" + remedy);
  if (token->second.uses_left == 0) return PermissionDenied("the token is used up" + remedy);
  return token->second;
}

Status UseToken(const std::string& name, const std::string& secret_digest, WallTime now,
                Account* account) {
  RETURN_IF_ERROR(FindToken(*account, name, secret_digest, now).status());
  --account->tokens[name].uses_left;
  return Status();
}

}  // namespace swarm::machines
