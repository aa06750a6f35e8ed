// Endpoints that live in one process: for tests and simulations of many programs without sockets.
// Messages pass through the same header encoding as on the network; payloads are shared, not
// copied.
#pragma once

#include <memory>

#include "worker/net/endpoint.h"

namespace swarm::net {

struct LoopbackOptions {
  /// Bytes sent to one peer on one lane and not yet given to its handler.
  std::size_t control_window_bytes = 8u << 20;
  std::size_t data_window_bytes = 64u << 20;
  std::size_t payload_bytes_max = 1u << 30;
  /// What comes to the endpoint comes so much later than it was sent.
  Duration latency{};
};

/// The hub. Thread-safe. May be destroyed before its endpoints: they keep what they need.
///
/// An endpoint's handler is called on one loop of that endpoint, so all its calls come one at a
/// time. Names, not addresses, find a peer: Connect ignores the addresses it is given and waits
/// until an endpoint of that name exists.
class LoopbackNetwork {
 public:
  LoopbackNetwork();
  ~LoopbackNetwork();
  LoopbackNetwork(const LoopbackNetwork&) = delete;
  LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;

  /// An endpoint named `self`. `handler` must outlive it. To its peers, its destruction is the
  /// death of a process, and another endpoint of the same name is a restart. Errors: kAlreadyExists
  /// while an endpoint of that name lives.
  Result<std::unique_ptr<Endpoint>> CreateEndpoint(const WorkerId& self, EndpointHandler* handler,
                                                   const LoopbackOptions& options = {});

  /// Breaks the connection between `a` and `b`, like a pulled cable; both handlers hear of it. A
  /// connection that is still wanted comes back at once, unless `keep_apart` (until Rejoin).
  void Break(const WorkerId& a, const WorkerId& b, bool keep_apart = false);
  /// Ends the separation of `a` and `b`.
  void Rejoin(const WorkerId& a, const WorkerId& b);

 private:
  class Hub;
  class Node;
  class NodeEndpoint;
  std::shared_ptr<Hub> hub_;
};

}  // namespace swarm::net
