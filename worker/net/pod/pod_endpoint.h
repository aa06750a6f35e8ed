// An Endpoint around another one which passes large payloads to the other workers of its pod
// through the memory that they share (pod_memory.h). The messages travel as before, so order,
// connections and identities are those of the inner endpoint.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "worker/net/endpoint.h"
#include "worker/net/pod/pod_memory.h"

namespace swarm::net {

class PodEndpoint final : public Endpoint, private EndpointHandler {
 public:
  /// Smaller payloads gain nothing.
  static constexpr std::size_t kLentBytesMin = 32u << 10;

  /// `peers`: the others of the pod, which have the same memory. Errors: those of `make`, which
  /// makes the inner endpoint.
  static Result<std::unique_ptr<Endpoint>> Create(std::shared_ptr<PodMemory> memory,
                                                  std::set<WorkerId> peers,
                                                  EndpointHandler* handler,
                                                  const MakeEndpoint& make);

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Disconnect(const WorkerId& peer) override;
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override;
  std::vector<protocol::Address> addresses() const override { return inner_->addresses(); }
  /// Counts what went through the memory, too.
  Traffic traffic() const override;
  std::map<WorkerId, protocol::Link> links() const override { return inner_->links(); }

 private:
  PodEndpoint(std::shared_ptr<PodMemory> memory, std::set<WorkerId> peers, EndpointHandler* handler)
      : memory_(std::move(memory)), peers_(std::move(peers)), handler_(handler) {}

  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override;
  void OnPeerUp(const WorkerId& peer) override { handler_->OnPeerUp(peer); }
  void OnPeerDown(const WorkerId& peer, const Status& why) override {
    handler_->OnPeerDown(peer, why);
  }

  const std::shared_ptr<PodMemory> memory_;
  const std::set<WorkerId> peers_;
  EndpointHandler* const handler_;
  std::atomic<std::uint64_t> bytes_lent_ = 0, bytes_taken_ = 0, refused_ = 0;
  std::unique_ptr<Endpoint> inner_;  // last: it calls the members above
};

}  // namespace swarm::net
