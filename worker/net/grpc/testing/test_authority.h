// For tests: throw-away certificates.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {

/// An authority with a fresh key. Any failure of OpenSSL ends the test program.
class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();

  /// Writes ca.crt, tls.crt and tls.key into `folder` (made if missing). The certificate names
  /// `uri` and is valid from an hour ago for `seconds`.
  TlsFiles Issue(const std::filesystem::path& folder, const std::string& uri,
                 long seconds = 7200) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace swarm::net
