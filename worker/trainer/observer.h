// Asks a trainer how the job is, for whoever only looks: swarmctl's view, and later the operator.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "worker/net/endpoint.h"

namespace swarm::trainer {

/// Thread-safe. Asks every `interval` while it lives.
class Observer final : public net::EndpointHandler {
 public:
  using MakeEndpoint =
      std::function<Result<std::unique_ptr<net::Endpoint>>(net::EndpointHandler* handler)>;

  static Result<std::unique_ptr<Observer>> Start(const std::vector<protocol::Address>& trainer,
                                                 Duration interval,
                                                 const MakeEndpoint& make_endpoint);
  ~Observer() override;

  /// The newest answer that was not taken yet.
  std::optional<protocol::JobStatus> Take();

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  Observer();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace swarm::trainer
