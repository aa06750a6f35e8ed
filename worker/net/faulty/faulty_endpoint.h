// An Endpoint around another one, which behaves as if the network were bad: cut, or slow. For
// experiments and tests (`swarmctl run --chaos`); rules may change while it runs.
//
// A cut is a black hole, like a pulled cable: the owner sees no change of the connection, nothing
// arrives, and the owner hears only afterwards that the peer has gone. When the cut is over, the
// messages sent meanwhile arrive in order, as with TCP, or the connection is reported broken if it
// broke meanwhile: the promises of endpoint.h hold. Both sides of a connection need the rules: the
// sender holds back its messages, the receiver holds back those on their way and the events of the
// connection.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include "base/loop.h"
#include "worker/chaos/fault_rules.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

struct FaultyOptions {
  WorkerId self;
  /// A file of rules, read when it changes (checked every `poll`). A missing or wrong file changes
  /// nothing; a wrong file is logged. Empty: only SetRules sets rules.
  std::string rules_file;
  Duration poll = std::chrono::milliseconds(20);
  /// Bound of the messages held back per peer and lane, like the send window of the inner endpoint.
  std::size_t held_bytes_max = 64u << 20;
};

/// Without rules it passes everything on, in the caller's thread.
class FaultyEndpoint final : public Endpoint, private EndpointHandler {
 public:
  /// Errors: those of `make`, which makes the inner endpoint.
  static Result<std::unique_ptr<Endpoint>> Create(const FaultyOptions& options,
                                                  EndpointHandler* handler,
                                                  const MakeEndpoint& make);
  ~FaultyEndpoint() override;

  /// The rules from now on. From any thread.
  void SetRules(chaos::FaultRules rules);

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) override;
  void Disconnect(const WorkerId& peer) override;
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override;
  std::vector<protocol::Address> addresses() const override { return inner_->addresses(); }
  Traffic traffic() const override { return inner_->traffic(); }
  std::map<WorkerId, protocol::Link> links() const override { return inner_->links(); }

 private:
  struct Up {};
  struct Down {
    Status why;
  };
  struct Arrival {
    Lane lane;
    Envelope envelope;
  };
  using Event = std::variant<Up, Down, Arrival>;
  struct Held {
    Timepoint due;
    std::size_t bytes;
    Envelope envelope;
  };
  struct LaneQueue {
    std::deque<Held> held;
    std::size_t bytes = 0;
  };
  struct Peer {
    LaneQueue out[kLaneCount];
    std::deque<Event> in;   // events that the owner was not told yet
    int downs_held = 0;     // among `in`: downs of the connection that the owner knows
    int calls = 0;          // running calls of the handler, in threads of the inner endpoint
    bool draining = false;  // the loop is telling the owner
    bool owner_up = false;  // the owner's last news of the peer
  };

  FaultyEndpoint(FaultyOptions options, EndpointHandler* handler);

  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override;
  void OnPeerUp(const WorkerId& peer) override;
  void OnPeerDown(const WorkerId& peer, const Status& why) override;

  /// Tells the owner now, or later if the rules or earlier events are in the way.
  void Hear(const WorkerId& from, Event event);
  void Tell(const WorkerId& from, Event event);
  /// These need the lock.
  bool MayPass(const WorkerId& from, const Event& event) const;
  void FlushLane(const WorkerId& to, Lane lane, LaneQueue& queue);
  /// On the loop: tells the owner the events that may pass by now.
  void Drain(const WorkerId& from);
  /// On the loop: sends the messages that are due.
  void Flush(const WorkerId& to);
  void PollFile();

  const FaultyOptions options_;
  EndpointHandler* const handler_;
  mutable std::mutex mutex_;
  chaos::FaultRules rules_;
  std::map<WorkerId, Peer> peers_;
  std::string file_text_;
  std::unique_ptr<Endpoint> inner_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace swarm::net
