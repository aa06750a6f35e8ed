// A request for a certificate (PKCS#10): how a machine gets an identity while its key stays there.
#pragma once

#include <string>

#include "base/status.h"

namespace swarm::identity {

/// Both in PEM.
struct KeyAndRequest {
  std::string key;      ///< never leaves the machine
  std::string request;  ///< signed with the key, which proves that the sender has it
};

/// Makes a P-256 key, and a request for a certificate of it. `name` is for people: who signs the
/// request chooses the identity.
Result<KeyAndRequest> MakeRequest(const std::string& name);

}  // namespace swarm::identity
