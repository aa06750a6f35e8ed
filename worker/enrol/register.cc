#include "worker/enrol/register.h"

#include <algorithm>
#include <string_view>

#include "base/short_time.h"

namespace swarm::enrol {
namespace {

constexpr std::string_view kAskForAnother =
    "; ask for another one, which `swarmctl token create` prints where the job runs";

Status Over(const std::string& id, const std::string& why) {
  return PermissionDenied("the token " + id + " " + why + std::string(kAskForAnother));
}

}  // namespace

Status Register::Create(const std::string& id, const std::string& secret_digest,
                        const TokenTerms& terms, Timepoint now) {
  if (terms.uses == 0 || terms.lifetime <= Duration::zero()) {
    return InvalidArgument("a token needs a time to live, and at least one use");
  }
  const auto good = std::ranges::count_if(
      tokens_, [&](const auto& entry) { return StateOf(entry.second, now) == TokenState::kGood; });
  if (static_cast<std::size_t>(good) >= limits_.tokens_max) {
    return ResourceExhausted("there are " + std::to_string(good) +
                             " good tokens: revoke some, or wait until they have ended");
  }
  const Token token{secret_digest, now + terms.lifetime, terms.uses};
  if (!tokens_.emplace(id, token).second) return AlreadyExists("there is a token " + id);
  return Status();
}

TokenState Register::StateOf(const Token& token, Timepoint now) {
  if (token.revoked) return TokenState::kRevoked;
  if (token.uses_left == 0) return TokenState::kUsedUp;
  return now < token.expires ? TokenState::kGood : TokenState::kExpired;
}

Result<std::string> Register::Enrol(const Proof& proof, Timepoint now) {
  RETURN_IF_ERROR(failures_.Admit(proof.source, now));
  Result<std::string> worker = Judge(proof, now);
  if (!worker.ok()) failures_.Count(proof.source, now);
  return worker;
}

Result<std::string> Register::Judge(const Proof& proof, Timepoint now) {
  const auto found = tokens_.find(proof.id);
  if (found == tokens_.end() || found->second.secret_digest != proof.secret_digest) {
    return Status(StatusCode::kUnauthenticated,
                  "home has not given this token: it is of another run or job, or forged" +
                      std::string(kAskForAnother));
  }
  Token& token = found->second;
  switch (StateOf(token, now)) {
    case TokenState::kRevoked:
      return Over(proof.id, "was revoked");
    case TokenState::kUsedUp:
      return Over(proof.id, "is used up");
    case TokenState::kExpired:
      return Over(proof.id, "expired " + ShortTime(ToSeconds(now - token.expires)) + " ago");
    case TokenState::kGood:
      break;
  }
  if (workers_.size() >= limits_.workers_max) {
    return ResourceExhausted("this run has enrolled " + std::to_string(workers_.size()) +
                             " workers, and takes no more");
  }
  const std::string worker = "joined-" + std::to_string(workers_.size());
  workers_.insert(worker);
  --token.uses_left;
  token.workers.push_back(worker);
  return worker;
}

Status Register::MayRenew(const std::string& worker) const {
  if (revoked_.contains(worker)) {
    return PermissionDenied(worker + " was revoked by the owner of the job");
  }
  return workers_.contains(worker) ? Status() : NotFound(worker + " was not enrolled by this run");
}

Result<std::vector<std::string>> Register::Revoke(const std::string& name) {
  std::vector<std::string> candidates;
  if (const auto token = tokens_.find(name); token != tokens_.end()) {
    token->second.revoked = true;
    candidates = token->second.workers;
  } else if (workers_.contains(name)) {
    candidates = {name};
  } else {
    return NotFound("there is no token and no enrolled worker " + name +
                    "; `swarmctl token list` names them");
  }
  std::erase_if(candidates, [&](const auto& worker) { return !revoked_.insert(worker).second; });
  return candidates;
}

std::vector<TokenStatus> Register::List(Timepoint now) const {
  std::vector<TokenStatus> list;
  for (const auto& [id, token] : tokens_) {
    TokenStatus status{.id = id,
                       .state = StateOf(token, now),
                       .uses_left = token.uses_left,
                       .time_left = std::max(token.expires - now, Duration::zero()),
                       .workers = token.workers};
    std::erase_if(status.workers, [&](const auto& worker) { return revoked_.contains(worker); });
    list.push_back(std::move(status));
  }
  return list;
}

}  // namespace swarm::enrol
