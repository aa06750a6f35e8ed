// Who we are to the API server, asked again for each request: tokens live an hour.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "operator/kube/transport/timing.h"

namespace swarm::kube {

/// Thread-safe.
class Credentials {
 public:
  virtual ~Credentials() = default;
  /// The value of the Authorization header; empty: none is sent.
  virtual std::string Authorization() = 0;
  /// The server answered 401 to what Authorization gave: forget it.
  virtual void OnRefused() = 0;
};

/// For a client certificate, or a token that does not change. An empty token sends no header.
std::shared_ptr<Credentials> FixedToken(const std::string& token);

/// A bound token of a service account: the kubelet writes a new one before the old one ends. Read
/// again after 60 s, and after a refusal; the last one is kept while the file cannot be read.
std::shared_ptr<Credentials> TokenFile(const std::filesystem::path& path, Timing& timing);

}  // namespace swarm::kube
