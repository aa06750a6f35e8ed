// For tests: credentials of a caller that does not look whom it calls, so that only the server
// decides.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/identity/pem.h"

namespace swarm::net {

/// None: it has no certificate.
inline std::shared_ptr<grpc::ChannelCredentials> RawCredentials(
    const std::optional<identity::KeyPair>& pair) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  if (pair) {
    options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
        std::vector<tls::IdentityKeyCertPair>{{pair->key, pair->certificate}}));
    options.watch_identity_key_cert_pairs();
  }
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return tls::TlsCredentials(options);
}

}  // namespace swarm::net
