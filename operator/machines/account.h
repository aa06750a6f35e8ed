// The join tokens of one SwarmJob: with which machines without Kubernetes may join it, and which
// are out. Pure: the caller passes in the time, and keeps the text between two calls.
//
// Two write it: the owner of the job, who makes and revokes tokens (swarmctl), and home's operator,
// which counts their uses. Who has joined is in the job's status (admission.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/status.h"

namespace swarm::machines {

using WallTime = std::chrono::system_clock::time_point;

/// The key in the Secret of a job's tokens (names::TokensSecretName).
inline constexpr const char* kAccount = "account.json";

struct Token {
  std::string secret_digest;  ///< identity::Sha256 of the secret
  std::string pool;           ///< as in spec.workers.machinePools
  WallTime expires{};         ///< whole seconds
  std::uint64_t uses_left = 0;
  bool operator==(const Token&) const = default;
};

struct Account {
  std::map<std::string, Token> tokens;  ///< by name; one that was revoked is gone
  std::set<std::uint64_t> revoked;      ///< ordinals of machines that are out
  bool operator==(const Account&) const = default;
};

/// A job has no more that are good or have machines.
inline constexpr std::size_t kTokensMax = 1024;

/// JSON. Errors of ParseAccount: kInvalidArgument.
std::string ToText(const Account& account);
Result<Account> ParseAccount(const std::string& text);

/// The id by which a join token says of which job it is, and which of its tokens.
struct TokenId {
  std::string job_uid;
  std::string name;
  bool operator==(const TokenId&) const = default;
};
std::string ToText(const TokenId& id);
/// Errors: kUnauthenticated.
Result<TokenId> ParseTokenId(const std::string& text);

/// The token that has this secret. Errors: kUnauthenticated (the job has none; which part is wrong
/// is not told), kPermissionDenied (it has expired, or is used up).
Result<Token> FindToken(const Account& account, const std::string& name,
                        const std::string& secret_digest, WallTime now);
/// As FindToken, and counts a use.
Status UseToken(const std::string& name, const std::string& secret_digest, WallTime now,
                Account* account);

}  // namespace swarm::machines
