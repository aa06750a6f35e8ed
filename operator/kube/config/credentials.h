// The credentials for the API server. They are read for each request, because tokens live an hour.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "operator/kube/timing/timing.h"

namespace swarm::kube {

/// Thread-safe.
class Credentials {
 public:
  virtual ~Credentials() = default;
  /// The value of the Authorization header; empty: none is sent. May block while a plugin runs,
  /// which has a time limit of its own. Errors: kUnauthenticated, there are no credentials, and
  /// another try at once would not get any; kCancelled.
  virtual Result<std::string> Authorization() = 0;
  /// The server answered 401 to the last Authorization: forget it.
  virtual void OnRefused() = 0;
};

/// A token that does not change. An empty token sends no header, for use with a client certificate.
std::shared_ptr<Credentials> FixedToken(const std::string& token);

/// The bound token of a service account, which the kubelet renews. The file is read again after 60
/// s, and after a refusal. While it cannot be read, the last token is used.
std::shared_ptr<Credentials> TokenFile(const std::filesystem::path& path, Timing& timing);

}  // namespace swarm::kube
