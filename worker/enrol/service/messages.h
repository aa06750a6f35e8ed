// What machines, workers and operators ask home, and what it answers.
// proto/swarmjob/v1/enrolment.proto has the same on the wire.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/enrol/register.h"

namespace swarm::enrol {

struct EnrolRequest {
  std::string token_id;
  std::string secret;
  std::string request;  ///< for a certificate: PKCS#10 in PEM
};

struct EnrolReply {
  std::string worker;       ///< the id that the machine's worker has from now on
  std::string certificate;  ///< PEM
  Duration validity{};      ///< of the certificate, from now on
  std::string job_uid;
  std::string job_name;  ///< for people
  std::string trainer;   ///< host:port
  std::string seen_as;   ///< the address from which the machine has called
  /// Home of a job in a cluster has an authority of its own, beside that of the job.
  std::string authority = {};         ///< of the job (PEM); empty: that of home
  std::string home_certificate = {};  ///< for calls to home (PEM); empty: `certificate`
  std::string trainer_gateway = {};   ///< HOST:PORT/NAME before the trainer; empty: there is none
  std::string job = {};  ///< what a worker computes (api/job_for_machines.h); empty: not said
};

struct RefreshReply {
  std::string certificate;  ///< PEM; empty: none was asked for
  Duration validity{};
  std::set<std::string> revoked;      ///< workers that are out
  std::string home_certificate = {};  ///< as in EnrolReply
};

/// The certificate for calls to home.
template <typename Reply>
const std::string& ForHome(const Reply& reply) {
  return reply.home_certificate.empty() ? reply.certificate : reply.home_certificate;
}

/// What a pod shows (worker/enrol/proof.h).
struct ProveRequest {
  std::string token;  ///< of its service account, for ProofAudience
  std::string job_uid;
  std::string cluster;  ///< home's name for the pod's
  std::string worker;   ///< the id that it wants
  std::string request;  ///< for a certificate: PKCS#10 in PEM
};

struct ProveReply {
  std::string certificate;  ///< PEM
  std::string authority;    ///< of the job; PEM
  Duration validity{};      ///< of the certificate, from now on
};

/// Who calls, as far as home knows.
struct Caller {
  std::string address;            ///< without the port
  std::vector<std::string> uris;  ///< in its verified certificate; empty: it has none
};

/// What home's service does. Called on gRPC's threads, several at a time; must not wait.
class Desk {
 public:
  virtual ~Desk() = default;
  virtual Result<EnrolReply> Enrol(const Caller& caller, const EnrolRequest& request) = 0;
  /// `request`: for the next certificate; empty: none is due.
  virtual Result<RefreshReply> Refresh(const Caller& caller, const std::string& request) = 0;
  /// The token's text.
  virtual Result<std::string> CreateToken(const Caller& caller, const TokenTerms& terms) = 0;
  virtual Result<std::vector<TokenStatus>> ListTokens(const Caller& caller) = 0;
  /// `name` is a token's or a worker's. Returns the workers that are out now and were not before.
  virtual Result<std::vector<std::string>> Revoke(const Caller& caller,
                                                  const std::string& name) = 0;
};

}  // namespace swarm::enrol
