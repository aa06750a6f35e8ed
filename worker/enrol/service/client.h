// Calls home's enrolment service.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/identity/pem.h"
#include "base/time.h"
#include "worker/enrol/service/messages.h"

namespace swarm::enrol {

/// Home, and how to know that it is home. Each call makes a connection of its own, and blocks until
/// it is answered. Nothing is sent to another program than home: the authority with the fingerprint
/// must have signed the server's certificate, and it must name home.
///
/// Errors of all calls: those of Desk; kUnauthenticated (the server is not home), kUnavailable and
/// kDeadlineExceeded (no answer within the limit).
class Client {
 public:
  struct Options {
    std::string address;      ///< host:port
    std::string fingerprint;  ///< of the job's authority
    Duration limit = std::chrono::seconds(10);
  };
  explicit Client(Options options) : options_(std::move(options)) {}

  /// As whom to call from now on; without this, the caller is nobody.
  void SetIdentity(identity::KeyPair identity) { identity_ = std::move(identity); }

  /// Also checks that the certificates are signed by their authorities, and that the names in the
  /// reply can be parts of the names of files. Errors besides: kDataLoss.
  Result<EnrolReply> Enrol(const EnrolRequest& request);
  /// By a pod, at home's operator: the fingerprint is that of the authority of satellites. Also
  /// checks that the reply's authority has signed its certificate. Errors besides: those of the
  /// judge of proofs.
  Result<ProveReply> Prove(const ProveRequest& request);
  /// By a machine that this client has enrolled, or whose job has the authority of home.
  Result<RefreshReply> Refresh(const std::string& request);
  Result<std::string> CreateToken(const TokenTerms& terms);
  Result<std::vector<TokenStatus>> ListTokens();
  Result<std::vector<std::string>> Revoke(const std::string& name);

  /// In PEM: the authority that has signed home's certificate, once home has been reached; and that
  /// of the job, once it has enrolled.
  const std::string& authority() const { return authority_; }
  const std::string& job_authority() const { return job_authority_; }

 private:
  /// `method` with its service.
  template <typename Reply, typename Request>
  Result<Reply> Call(const std::string& method, const Request& request);

  const Options options_;
  std::optional<identity::KeyPair> identity_;
  std::string authority_, job_authority_;
};

}  // namespace swarm::enrol
