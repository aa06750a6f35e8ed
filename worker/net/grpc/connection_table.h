// The connections that an endpoint has, makes and accepts. A connection is one stream for each
// lane, both dialled by the same side at the same time.
//
// Not thread-safe: everything runs on the endpoint's loop. Streams report from gRPC's threads; the
// endpoint posts their reports here.
//
// When both sides dial, the connection that the smaller id dialled is kept. The smaller id does not
// answer the other's call until its own dial has ended; the larger id answers and gives up its own
// dial. A call carries no message before it is answered, so giving it up loses none.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "worker/net/grpc/dial_slots.h"
#include "worker/net/grpc/stream.h"

namespace swarm::net {

/// One stream for each lane. Lives until both have ended.
struct Connection {
  WorkerId peer;
  std::uint64_t incarnation = 0;  ///< of the peer's process; 0 until it is known
  std::uint64_t number = 0;       ///< the dialler's count
  bool dialled = false;           ///< by this end
  std::array<std::shared_ptr<Stream>, kLaneCount> lanes;
  std::array<bool, kLaneCount> hello_came{};
  DialSlots::Slot slot;  ///< of a dial until it has ended
  int ended = 0;         ///< lanes whose stream is done
  bool open = false;     ///< announced to the handler
  bool closing = false;
  Status why;                       ///< of closing
  std::atomic<bool> muted = false;  ///< the handler gets no more of its messages
  std::atomic<bool> used = true;    ///< since the last look for connections that are idle
  int idle_looks = 0;               ///< since it was used

  bool complete() const { return hello_came[0] && hello_came[1]; }
  Stream& lane(Lane lane) const { return *lanes[static_cast<std::size_t>(lane)]; }
};

/// What the table needs from its endpoint.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual StreamHello MakeHello(Lane lane, std::uint64_t connection) const = 0;
  /// Calls `dial` on the loop as soon as one more dial may begin.
  virtual void AwaitTurn(std::function<void(DialSlots::Slot)> dial) = 0;
  /// Begins a call to `peer`.
  virtual std::shared_ptr<Stream> Dial(const WorkerId& peer, const protocol::Address& address,
                                       const StreamHello& hello) = 0;
  /// Whether the other end of `stream` has the id of `hello`, belongs to the job, and shares a
  /// version with us.
  virtual Status CheckPeer(const Stream& stream, const StreamHello& hello) const = 0;
  /// Messages can be sent from now on. The host must start the reading of both streams.
  virtual void OnOpen(const std::shared_ptr<Connection>& connection) = 0;
  /// No more messages can be sent.
  virtual void OnClosing(const std::shared_ptr<Connection>& connection) = 0;
  /// The last message of an open connection has been delivered.
  virtual void OnBroken(const std::shared_ptr<Connection>& connection) = 0;
  /// Calls `work` on the loop after `delay`.
  virtual void After(Duration delay, std::function<void()> work) = 0;
};

struct ConnectionOptions {
  Duration dial_deadline = std::chrono::seconds(10);   ///< for both hellos to come
  Duration offer_deadline = std::chrono::seconds(15);  ///< for which an accepted call may be held
  /// The rest of our dial's time once a call of the same peer waits for the dial's end.
  Duration collision_deadline = std::chrono::seconds(3);
  Duration backoff_min = std::chrono::milliseconds(50);
  Duration backoff_max = std::chrono::seconds(3);
  Duration idle_max = std::chrono::minutes(1);  ///< for a connection that was dialled when needed
};

class ConnectionTable {
 public:
  /// `host` outlives this.
  ConnectionTable(const WorkerId& self, const ConnectionOptions& options, ConnectionHost* host);

  /// Keeps a connection open.
  void Want(const WorkerId& peer, const std::vector<protocol::Address>& addresses);
  /// Dials now, unless it is wanted already; after a failure not again before it is needed again.
  void Need(const WorkerId& peer, const std::vector<protocol::Address>& addresses);
  /// A connection that was kept open need not be any more.
  void Release(const WorkerId& peer);
  void Forget(const WorkerId& peer);
  /// Closes the connections with a stream for which `check` gives an error, for that reason. Asks
  /// only where the other end is known: of the others, each hello is checked by CheckPeer.
  void CloseWhere(const std::function<Status(const Stream&)>& check);
  /// A call was accepted; its hello has not come yet.
  void AddStranger(const std::shared_ptr<Stream>& stream);
  void HelloCame(const std::shared_ptr<Stream>& stream, const StreamHello& hello);
  void StreamDone(const std::shared_ptr<Stream>& stream, const Status& why);
  /// Closes everything; closes later connections at once.
  void CloseAll(const Status& why);

 private:
  using ConnectionPtr = std::shared_ptr<Connection>;

  struct Peer {
    bool wanted = false;  ///< is dialled when there is no connection
    bool kept = false;    ///< ... for ever
    std::vector<protocol::Address> addresses;
    std::uint64_t failures = 0;             ///< dials in a row
    std::uint64_t refused_incarnation = 0;  ///< of the process that was disconnected; 0: none
    std::uint64_t last_incarnation = 0;     ///< of the process that was connected last
    bool redial_pending = false;
    bool queued = false;    ///< its dial awaits its turn
    ConnectionPtr current;  ///< open, or closing after it was
    ConnectionPtr dialling;
    ConnectionPtr offered;  ///< accepted calls without an answer yet
  };

  void Dial(const WorkerId& id, Peer& peer);
  bool IsToDial(const Peer& peer) const;
  void BeginDial(const WorkerId& id, Peer& peer, DialSlots::Slot slot);
  void DialLater(const WorkerId& id, Peer& peer);
  void AnswerCame(const ConnectionPtr& connection, const std::shared_ptr<Stream>& stream,
                  const StreamHello& hello);
  void OfferCame(const std::shared_ptr<Stream>& stream, const StreamHello& hello);
  /// Takes, holds or refuses the offered connection of a peer.
  void Decide(Peer& peer);
  void Open(Peer& peer, const ConnectionPtr& connection);
  /// Closes the connections that were dialled when needed, and are not used any more.
  void CloseIdle();
  void CloseIdleLater();
  void Close(const ConnectionPtr& connection, const Status& why);
  /// Both streams of `connection` are done.
  void Ended(const ConnectionPtr& connection);

  const WorkerId self_;
  const ConnectionOptions options_;
  ConnectionHost* const host_;
  Rng jitter_;
  bool closed_ = false;
  bool looks_for_idle_ = false;
  std::uint64_t dial_count_ = 0;
  std::map<WorkerId, Peer> peers_;
  std::map<const Stream*, ConnectionPtr> connections_;
  std::set<std::shared_ptr<Stream>> strangers_;
};

}  // namespace swarm::net
