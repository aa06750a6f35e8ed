// An Endpoint around another one which sends messages for some peers through a third worker: the
// way around a pair that cannot reach each other (docs/protocol.md, rule 28).
//
// A data message for such a peer travels as a Relayed. At its end it is handed to the owner as if
// its sender had sent it; the owner of the third worker gets the Relayed and sends it on. Control
// is never relayed: it comes from the trainer itself. The promises of endpoint.h hold for each way,
// and nothing is promised across a change of the way: the protocol refuses what comes late or
// twice.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/net/endpoint.h"

namespace swarm::net {

class DetourEndpoint final : public Endpoint, private EndpointHandler {
 public:
  /// Errors: those of `make`, which makes the inner endpoint.
  static Result<std::unique_ptr<DetourEndpoint>> Create(const WorkerId& self,
                                                        EndpointHandler* handler,
                                                        const MakeEndpoint& make);

  /// All detours from now on, by peer. From any thread.
  void SetDetours(std::map<WorkerId, WorkerId> via);

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Disconnect(const WorkerId& peer) override;
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override;
  std::vector<protocol::Address> addresses() const override { return inner_->addresses(); }
  Traffic traffic() const override;
  std::map<WorkerId, protocol::Link> links() const override { return inner_->links(); }

 private:
  DetourEndpoint(WorkerId self, EndpointHandler* handler)
      : self_(std::move(self)), handler_(handler) {}

  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override;
  void OnPeerUp(const WorkerId& peer) override { handler_->OnPeerUp(peer); }
  void OnPeerDown(const WorkerId& peer, const Status& why) override {
    handler_->OnPeerDown(peer, why);
  }

  /// Empty: the direct way.
  WorkerId ViaFor(const WorkerId& to) const;

  const WorkerId self_;
  EndpointHandler* const handler_;
  std::atomic<bool> any_ = false;  // spares messages the lock where there are no detours
  mutable std::mutex mutex_;
  std::map<WorkerId, WorkerId> via_;
  std::atomic<std::uint64_t> refused_ = 0;
  std::unique_ptr<Endpoint> inner_;  // last: it calls the members above
};

}  // namespace swarm::net
