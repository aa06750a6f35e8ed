// For tests: throw-away certificates.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "worker/net/grpc/grpc_endpoint.h"

namespace swarm::net {

/// A folder that is removed with this.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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
