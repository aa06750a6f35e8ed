// The trusted authority and the client certificate of a connection. They are read for each new
// connection, because both are replaced while the program runs.
#pragma once

#include <functional>
#include <string>

namespace swarm::kube {

/// All texts are PEM.
struct TlsMaterial {
  std::string ca;           ///< the trusted authorities
  std::string certificate;  ///< client certificate with its chain; empty: none
  std::string key;
  /// Do not verify the server. Set only if a user asked for it, by a flag or in a kubeconfig.
  bool insecure = false;
  /// Trust the authorities of this machine, too, as for a kubeconfig without an authority.
  bool machine_authorities = false;
  bool operator==(const TlsMaterial&) const = default;
};

/// Thread-safe, must not throw. While its files cannot be read, it returns the last valid material.
using TlsSource = std::function<TlsMaterial()>;

}  // namespace swarm::kube
