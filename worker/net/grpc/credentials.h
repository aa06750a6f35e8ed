// Which programs may talk to each other: mutual TLS, and the identities in certificates.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {

/// The prefix of the URIs of all programs of a job; ends with '/'.
std::string JobUri(const std::string& job);

/// The only URI SAN that a certificate must have for a program to be `id`: identity::WorkerUri,
/// with bytes of JOB and ID outside of [A-Za-z0-9._-] as %XX. The id "trainer" is
/// identity::TrainerUri; "observer" and "operator", alone or followed by '/' and anything, are
/// those of the observer and the operator.
std::string IdentityUri(const std::string& job, const WorkerId& id);

/// The URIs of which a certificate must have one for a program to be `id`: IdentityUri, and for a
/// worker ID-N with a number N below 1000 also that of the worker ID: the workers of a pod have the
/// pod's certificate. So in a job with pods no worker is called as another one and a number behind.
std::vector<std::string> IdentityUris(const std::string& job, const WorkerId& id);

/// The URIs in the verified certificate of the other end of a call; none in plaintext.
std::vector<std::string> UrisOf(const grpc::AuthContext* context);

/// The credentials of one endpoint. Thread-safe but for Refresh.
class Credentials {
 public:
  virtual ~Credentials() = default;

  /// Errors: as GrpcEndpoint::Create.
  static Result<std::unique_ptr<Credentials>> Create(const GrpcOptions& options);

  virtual std::shared_ptr<grpc::ServerCredentials> ForListening() const = 0;
  /// A connection with these credentials fails unless the other end is `peer`.
  virtual std::shared_ptr<grpc::ChannelCredentials> ForDialling(const WorkerId& peer) const = 0;
  /// Reads replaced files; new connections use them soon after. Call it now and then, from one
  /// thread.
  virtual void Refresh() = 0;
  /// Whether a peer whose verified certificate has these URIs may call itself `id`.
  /// Errors: kPermissionDenied.
  virtual Status AuthorizeId(const std::vector<std::string>& uris, const WorkerId& id) const = 0;
};

}  // namespace swarm::net
