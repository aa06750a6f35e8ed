// What home knows of join tokens and of the workers that came by them, and its decisions: whether a
// token is good now, which identity its bearer gets, whose certificate is renewed. Pure: the caller
// passes in the time, digests of secrets, and names. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/enrol/failures.h"

namespace swarm::enrol {

struct TokenTerms {
  Duration lifetime = std::chrono::hours(24);
  std::uint64_t uses = 10;  ///< machines that may join with it
};

struct RegisterLimits {
  FailureLimits failures;
  std::size_t tokens_max = 1024;   ///< that are good at one time
  std::size_t workers_max = 4096;  ///< that are ever enrolled: a name is never used twice
};

enum class TokenState : std::uint8_t { kGood, kUsedUp, kExpired, kRevoked };

/// A token as its owner sees it.
struct TokenStatus {
  std::string id;
  TokenState state{};
  std::uint64_t uses_left = 0;
  Duration time_left{};              ///< zero: it has ended
  std::vector<std::string> workers;  ///< that have joined with it and are not revoked
};

/// What the bearer of a token shows.
struct Proof {
  std::string id;             ///< of the token
  std::string secret_digest;  ///< identity::Sha256 of the secret
  std::string source;         ///< address from which it calls
};

class Register {
 public:
  explicit Register(const RegisterLimits& limits = {})
      : limits_(limits), failures_(limits.failures) {}

  /// From now on the token is good. Errors: kInvalidArgument (terms that nobody can use),
  /// kAlreadyExists, kResourceExhausted.
  Status Create(const std::string& id, const std::string& secret_digest, const TokenTerms& terms,
                Timepoint now);

  /// Uses the token once, and returns the name of the worker that its bearer becomes. Never the
  /// same name twice. Errors: kUnauthenticated (home has given no such token; which part is wrong
  /// is not told), kPermissionDenied (used up, expired or revoked), kResourceExhausted.
  Result<std::string> Enrol(const Proof& proof, Timepoint now);

  /// Whether a worker that has shown its certificate gets the next one.
  /// Errors: kPermissionDenied (it was revoked), kNotFound (it was not enrolled here).
  Status MayRenew(const std::string& worker) const;

  /// Revokes a worker, or a token and with it all workers that have joined with it. Returns the
  /// workers that are out now and were not before. Errors: kNotFound.
  Result<std::vector<std::string>> Revoke(const std::string& name);

  /// By id; those that have ended for as long as the run.
  std::vector<TokenStatus> List(Timepoint now) const;
  /// The workers that are out.
  const std::set<std::string>& revoked() const { return revoked_; }

 private:
  struct Token {
    std::string secret_digest;
    Timepoint expires;
    std::uint64_t uses_left = 0;
    bool revoked = false;
    std::vector<std::string> workers;
  };
  static TokenState StateOf(const Token& token, Timepoint now);
  Result<std::string> Judge(const Proof& proof, Timepoint now);

  const RegisterLimits limits_;
  std::map<std::string, Token> tokens_;
  std::set<std::string> workers_;
  std::set<std::string> revoked_;
  Failures failures_;
};

}  // namespace swarm::enrol
