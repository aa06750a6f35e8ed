// Whom we trust and with what certificate we come, asked again for each new connection: authorities
// and certificates are replaced while a program runs.
#pragma once

#include <functional>
#include <string>

namespace swarm::kube {

/// PEM, all of it.
struct TlsMaterial {
  std::string ca;           ///< whom we trust, and nobody else
  std::string certificate;  ///< with its chain; empty: we come without one
  std::string key;
  /// Trust whoever answers. Only where a person asked for it by a flag.
  bool insecure = false;
  bool operator==(const TlsMaterial&) const = default;
};

/// Thread-safe, must not throw. Gives what was last good while its files cannot be read.
using TlsSource = std::function<TlsMaterial()>;

}  // namespace swarm::kube
