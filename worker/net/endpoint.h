// How programs of one job talk: every process has one Endpoint, knows its peers by id, and sends
// messages with an optional payload on one of two lanes. Two implementations, loopback/ (all in one
// process) and grpc/ (mutual TLS), pass one conformance suite (endpoint_test.cc).
//
// Promises, per (peer, lane): messages arrive in the order of sending, at most once, whole or not
// at all; a connection that breaks is reported with OnPeerDown before anything of a later
// connection is delivered. Nothing is promised across lanes or peers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/messages/message.h"

namespace swarm::net {

using protocol::WorkerId;

/// Each lane has a connection of its own, so that bulk never delays control.
enum class Lane : std::uint8_t { kControl = 0, kData = 1 };
inline constexpr int kLaneCount = 2;

/// One message and its payload.
struct Envelope {
  protocol::Message message;
  Bytes payload;
};

/// What an endpoint tells its owner. Called on the endpoint's own threads, one call at a time for
/// each (peer, lane), and neither OnPeerUp nor OnPeerDown while another call for that peer runs;
/// calls for different peers or lanes may overlap. They should post to a Loop and return: the
/// threads are few and shared by all endpoints of the process, so a call that waits delays other
/// peers, too, and in the end, by flow control, the senders. They must not call the endpoint,
/// except for Send.
class EndpointHandler {
 public:
  virtual ~EndpointHandler() = default;
  virtual void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) = 0;
  /// Both lanes to the peer are open. A peer that dialled us is announced the same way.
  virtual void OnPeerUp(const WorkerId& peer) = 0;
  /// A lane to the peer broke: messages in flight may be lost.
  virtual void OnPeerDown(const WorkerId& peer, const Status& why) = 0;
};

/// Counts of sent and received messages, for metrics.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;  ///< headers and payloads
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_relayed = 0;     ///< passed on, unread, between others
  std::uint64_t messages_refused = 0;  ///< malformed, oversize, or of a wrong checksum
};

/// Thread-safe. Destruction closes all connections; no handler call begins after it returns.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// Begins to keep a connection to `peer` open (and to re-open it with jittered back-off while it
  /// is wanted). Data flow both ways, whichever side dials: if both sides connect, the
  /// implementation keeps one connection. Idempotent; new addresses replace the old.
  virtual void Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) = 0;

  /// Tells where `peer` can be reached: Send, which finds no connection, begins to dial. What was
  /// dialled so may be closed when it was not used for a while. Ends what Connect began: the
  /// connection is not kept open any more.
  virtual void Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) = 0;

  /// Closes the connection to `peer` and stops dialling it. OnPeerDown is not called for it.
  /// Refuses later messages of that process of the peer, and its attempts to connect, until Connect
  /// is called for it here. A restarted process of the same id may connect.
  virtual void Disconnect(const WorkerId& peer) = 0;

  /// Queues a message. Never blocks. Errors: kUnavailable (no open connection: nothing was queued),
  /// kResourceExhausted (the send window of this peer and lane, a bound in bytes, is full: the
  /// caller keeps the message and is free to choose another peer), kInvalidArgument (payload above
  /// the cap, a list or header above that of wire.h). A message larger than the window passes when
  /// it is alone.
  virtual Status Send(const WorkerId& to, Lane lane, Envelope envelope) = 0;

  /// Where others can reach this endpoint; for Hello.
  virtual std::vector<protocol::Address> addresses() const = 0;
  virtual Traffic traffic() const = 0;
  /// What is known of the data connections to peers on other machines.
  virtual std::map<WorkerId, protocol::Link> links() const = 0;
};

/// Opens an endpoint whose calls go to `handler`, which outlives the endpoint: for code that does
/// not choose the transport.
using MakeEndpoint = std::function<Result<std::unique_ptr<Endpoint>>(EndpointHandler* handler)>;

}  // namespace swarm::net
