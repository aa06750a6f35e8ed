// Listens at addresses of IPv6 for a server of this program that knows IPv4 alone, and passes bytes
// on between its connections and those to the server.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "base/host_port.h"
#include "base/status.h"

namespace swarm::web {

/// Passes on at most 64 connections at a time; others wait. A reader that takes nothing for five
/// seconds is dropped. Threads: its own.
class Relay {
 public:
  /// `listen`: an address of IPv6, or :: for all of them and none of IPv4; port 0 takes a free one.
  /// `target`: the server, an address of IPv4. Errors: kUnavailable, the address cannot be listened
  /// at.
  static Result<std::unique_ptr<Relay>> Start(const HostPort& listen, const HostPort& target);
  /// Ends all connections.
  ~Relay();

  /// With the port that was taken.
  const HostPort& address() const { return address_; }

 private:
  class Loop;
  Relay(std::unique_ptr<Loop> loop, HostPort address);

  const HostPort address_;
  const std::unique_ptr<Loop> loop_;
  std::jthread thread_;
};

}  // namespace swarm::web
