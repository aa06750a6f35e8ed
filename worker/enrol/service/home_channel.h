// Channels to home, which is known by the fingerprint of its authority alone, and the credentials
// of a server that is home. For the rooms that know gRPC.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/identity/pem.h"
#include "base/status.h"

namespace swarm::enrol {

/// What the handshakes of a channel have shown. Thread-safe.
class HomeSeen {
 public:
  /// Why the server is not home; ok: it was not refused.
  Status Refused() const;
  /// Whether a server has shown a certificate, good or not.
  bool WasReached() const;
  /// Home's authority in PEM; empty: there was no good handshake so far.
  std::string Authority() const;

  void Refuse(const Status& why);
  void Accept(const std::string& authority);

 private:
  mutable std::mutex mutex_;
  Status refused_;         // guarded
  std::string authority_;  // guarded
};

/// Makes a call to home by a new channel, again while no server was reached, a few times within
/// half a second: of several operators behind one address one listens, and the next connection may
/// reach it. `call` gets what the handshakes of its channel shall note. Returns what it has
/// returned last, and in `seen` what that call has noted.
Status TryConnections(const std::function<Status(const std::shared_ptr<HomeSeen>& seen)>& call,
                      std::shared_ptr<HomeSeen>* seen);

struct HomeAddress {
  std::string address;      ///< host:port
  std::string fingerprint;  ///< of the authority
  int message_bytes_max = 0;
};

/// Sends nothing to a server unless the authority with the fingerprint has signed its certificate,
/// and it names home. Calls as `identity`; none: as nobody. Of several channels each has a
/// connection of its own.
std::shared_ptr<grpc::Channel> MakeHomeChannel(const HomeAddress& home,
                                               const std::optional<identity::KeyPair>& identity,
                                               std::shared_ptr<HomeSeen> seen);

/// Those of a server that is home: it sends `authority` (PEM) with its certificate. Who calls
/// without a certificate is nobody, as one that comes with a token is; another needs one that the
/// authority has signed.
std::shared_ptr<grpc::ServerCredentials> MakeHomeCredentials(const std::string& authority,
                                                             const identity::KeyPair& identity);

}  // namespace swarm::enrol
