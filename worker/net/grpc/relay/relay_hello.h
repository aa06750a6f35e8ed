// The first message of a worker to a relay (proto/swarmjob/v1/relay.proto).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

inline constexpr char kRelayMethod[] = "/swarmjob.v1.Relay/Join";
/// No message to a relay is longer, and none of it.
inline constexpr std::size_t kRelayedBytesMax = 64 << 10;

/// swarmjob.v1.RelayHello as a value.
struct RelayHello {
  std::string job;
  WorkerId id;
  WorkerId to;  ///< empty: the caller waits to be called
  bool waits() const { return to.empty(); }
  /// The worker that is called, or waits to be.
  const WorkerId& called() const { return waits() ? id : to; }
};

std::string EncodeRelayHello(const RelayHello& hello);
/// Errors: kDataLoss. Total.
Result<RelayHello> DecodeRelayHello(std::span<const std::byte> bytes);

}  // namespace swarm::net
