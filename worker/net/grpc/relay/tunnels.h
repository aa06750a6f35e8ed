// The ways of a worker that nobody can dial through a relay: connections to others like it, and
// theirs to it. gRPC dials, and listens, at sockets of this machine alone; what passes there is
// sent to the relay and comes from it. The sockets are abstract ones of Linux, so they leave no
// files. Whoever connects to one needs a certificate of the job for the worker at the other end.
//
// A connection has a call to the relay, with a connection of its own. In each direction it holds 64
// KiB, beside gRPC's windows.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "worker/net/endpoint.h"

namespace swarm::net {

/// Thread-safe.
class Tunnels {
 public:
  struct Options {
    std::string job;  ///< UID
    WorkerId self;
    /// Makes a channel to the relay that shares its connection with no other, by one of the ways
    /// that lead there: these are tried in turns, from 0 on, until one does.
    std::function<std::shared_ptr<grpc::Channel>(std::size_t way)> make_channel;
  };
  explicit Tunnels(Options options);
  /// Ends all connections, and waits for it.
  ~Tunnels();

  /// Where gRPC listens for calls of others.
  std::string listen() const;
  /// gRPC listens there: calls wait at the relay from now on, as long as it can be reached.
  void BeCallable();
  /// Where gRPC dials to reach `peer`.
  std::string AddressOf(const WorkerId& peer);

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace swarm::net
