// For tests: programs of each role of docs/security.md, and what they can be seen to reach.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/identity/authority.h"
#include "base/identity/request.h"
#include "base/identity/testing/made_authority.h"
#include "worker/net/grpc/testing/raw_caller.h"
#include "worker/net/grpc/testing/raw_credentials.h"

namespace swarm::security {

inline constexpr const char* kJob = "7";
inline constexpr const char* kOperators = "9";  ///< UID of the authority of satellites

/// Those of a job and of an operator with satellites: the authorities, and a certificate for each
/// role that has one.
class Callers {
 public:
  Callers() {
    using namespace identity;
    const auto issue = [this](const std::string& role, const JobAuthority& authority,
                              const std::string& uri) {
      pairs_[role] = *authority.Issue("x", uri);
    };
    issue("worker", job, WorkerUri(kJob, "worker-0"));
    issue("joined worker", job, WorkerUri(kJob, "joined-0"));
    issue("revoked worker", job, WorkerUri(kJob, "joined-1"));
    issue("trainer", job, TrainerUri(kJob));
    issue("observer", job, ObserverUri(kJob));
    issue("operator", job, OperatorUri(kJob));
    issue("home", job, HomeUri(kJob));
    issue("satellite", operators, SatelliteUri(kOperators, "west/2"));
    issue("earlier satellite", operators, SatelliteUri(kOperators, "west/1"));
    issue("revoked satellite", operators, SatelliteUri(kOperators, "east"));
    issue("machine", operators, MachineUri(kOperators, kJob, "tiny-w1"));
    issue("revoked machine", operators, MachineUri(kOperators, kJob, "tiny-w0"));
    issue("stranger", other, WorkerUri(kJob, "joined-0"));
    const auto asked = *MakeRequest("x");
    pairs_["late worker"] = {
        *job.Sign(asked.request, "x", WorkerUri(kJob, "joined-0"), std::chrono::seconds(-60)),
        asked.key};
  }

  /// None: the role has no certificate.
  std::optional<identity::KeyPair> PairOf(const std::string& role) const {
    const auto found = pairs_.find(role);
    return found == pairs_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Whether the server at `address` answers this call of a program of the role.
  bool IsAnswered(const std::string& role, const std::string& address, const std::string& method,
                  const std::string& question) const {
    net::RawCaller caller(address, net::RawCredentials(PairOf(role)), method);
    return caller.Write(question) && caller.Read().has_value();
  }

  const identity::JobAuthority job = identity::MadeAuthority(kJob),
                               other = identity::MadeAuthority("8"),
                               operators = identity::MadeAuthority(kOperators);

 private:
  std::map<std::string, identity::KeyPair> pairs_;
};

}  // namespace swarm::security
