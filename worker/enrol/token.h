// A join token: what a machine needs to become a worker of a job that runs elsewhere. One word, to
// be copied by people.
#pragma once

#include <string>

#include "base/status.h"

namespace swarm::enrol {

struct JoinToken {
  std::string address;      ///< host:port at which home enrols
  std::string fingerprint;  ///< of the job's authority (identity::Fingerprint): whom to trust
  std::string id;           ///< names the token, for its owner
  std::string secret;       ///< proves that home has given it; no key of the job
  bool operator==(const JoinToken&) const = default;
};

/// Letters, digits, '+', '/', '=' and '_' alone, with a checksum.
std::string ToText(const JoinToken& token);

/// Errors: kInvalidArgument (no token, or not the whole of one).
Result<JoinToken> ParseJoinToken(const std::string& text);

}  // namespace swarm::enrol
