#include "worker/net/grpc/connection_table.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace swarm::net {
namespace {

/// An idle connection is found idle so often before it is closed.
constexpr int kIdleLooks = 2;
/// Accepted calls without a hello; further ones are refused.
constexpr std::size_t kStrangersMax = 1024;

std::size_t IndexOf(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

ConnectionTable::ConnectionTable(const WorkerId& self, const ConnectionOptions& options,
                                 ConnectionHost* host)
    : self_(self),
      options_(options),
      host_(host),
      jitter_(MixName(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()),
                      self.value)) {}

void ConnectionTable::Want(const WorkerId& id, const std::vector<protocol::Address>& addresses) {
  if (closed_ || id == self_) return;
  Peer& peer = peers_[id];
  const bool moved = peer.addresses != addresses;
  peer.wanted = peer.kept = true;
  peer.refused_incarnation = 0;
  peer.addresses = addresses;
  if (moved) peer.failures = 0;
  if (moved && peer.dialling) Close(peer.dialling, Cancelled("the peer has another address"));
  if (!peer.current && (moved || !peer.redial_pending)) Dial(id, peer);
}

void ConnectionTable::Need(const WorkerId& id, const std::vector<protocol::Address>& addresses) {
  if (closed_ || id == self_) return;
  Peer& peer = peers_[id];
  if (peer.kept) return;
  peer.wanted = true;
  peer.addresses = addresses;
  if (!peer.redial_pending) Dial(id, peer);
  CloseIdleLater();
}

void ConnectionTable::Release(const WorkerId& id) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second.kept) return;
  found->second.kept = false;
  CloseIdleLater();
}

void ConnectionTable::CloseIdleLater() {
  if (std::exchange(looks_for_idle_, true)) return;
  host_->After(options_.idle_max / kIdleLooks, [this] { CloseIdle(); });
}

void ConnectionTable::CloseIdle() {
  looks_for_idle_ = false;
  for (auto& [id, peer] : peers_) {
    if (peer.kept || !peer.wanted) continue;
    CloseIdleLater();
    if (!peer.current || !peer.current->dialled || peer.current->closing) continue;
    Connection& connection = *peer.current;
    connection.idle_looks = connection.used.exchange(false) ? 0 : connection.idle_looks + 1;
    if (connection.idle_looks < kIdleLooks) continue;
    peer.wanted = false;
    Close(peer.current, Cancelled("the connection was not used"));
  }
}

void ConnectionTable::Forget(const WorkerId& id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  const Status why = PermissionDenied(self_.value + " has disconnected " + id.value);
  peer.wanted = peer.kept = false;
  peer.refused_incarnation = peer.last_incarnation;
  for (const ConnectionPtr& connection : {peer.current, peer.dialling, peer.offered}) {
    if (!connection) continue;
    connection->muted = true;
    Close(connection, why);
  }
}

void ConnectionTable::CloseWhere(const std::function<Status(const Stream&)>& check) {
  for (const auto& [id, peer] : peers_) {
    for (const ConnectionPtr& connection : {peer.current, peer.offered}) {
      if (!connection || !connection->complete()) continue;
      const Status status = check(connection->lane(Lane::kControl));
      if (status.ok()) continue;
      LOG_WARN("closing the connection to {}: {}", id.value, status.message());
      Close(connection, status);
    }
  }
}

bool ConnectionTable::IsToDial(const Peer& peer) const {
  return !closed_ && peer.wanted && !peer.current && !peer.dialling && !peer.addresses.empty();
}

void ConnectionTable::Dial(const WorkerId& id, Peer& peer) {
  if (!IsToDial(peer) || std::exchange(peer.queued, true)) return;
  host_->AwaitTurn([this, id](DialSlots::Slot slot) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    found->second.queued = false;
    if (IsToDial(found->second)) BeginDial(id, found->second, std::move(slot));
  });
}

void ConnectionTable::BeginDial(const WorkerId& id, Peer& peer, DialSlots::Slot slot) {
  const auto connection = std::make_shared<Connection>();
  connection->peer = id;
  connection->number = ++dial_count_;
  connection->dialled = true;
  connection->slot = std::move(slot);
  peer.dialling = connection;
  const protocol::Address& address = peer.addresses[peer.failures % peer.addresses.size()];
  for (const Lane lane : {Lane::kControl, Lane::kData}) {
    auto stream = host_->Dial(id, address, host_->MakeHello(lane, connection->number));
    connections_[stream.get()] = connection;
    connection->lanes[IndexOf(lane)] = std::move(stream);
  }
  host_->After(options_.dial_deadline,
               [this, waiting = std::weak_ptr(connection), dial = address.dial] {
                 const auto late = waiting.lock();
                 if (late && !late->open) Close(late, DeadlineExceeded("no answer from " + dial));
               });
}

void ConnectionTable::DialLater(const WorkerId& id, Peer& peer) {
  if (closed_ || peer.redial_pending) return;
  peer.redial_pending = true;
  const Duration full = std::min<Duration>(
      options_.backoff_max,
      options_.backoff_min * (1LL << std::min<std::uint64_t>(peer.failures, 10)));
  host_->After(FromSeconds(ToSeconds(full) * (0.5 + 0.5 * jitter_.Uniform())), [this, id] {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    found->second.redial_pending = false;
    Dial(id, found->second);
  });
}

void ConnectionTable::AddStranger(const std::shared_ptr<Stream>& stream) {
  if (closed_ || strangers_.size() >= kStrangersMax) {
    return stream->Close(closed_ ? Unavailable(self_.value + " is leaving")
                                 : ResourceExhausted("too many calls have not sent a hello"));
  }
  strangers_.insert(stream);
  host_->After(options_.dial_deadline, [this, waiting = std::weak_ptr(stream)] {
    const auto late = waiting.lock();
    if (late && strangers_.contains(late)) late->Close(DeadlineExceeded("no hello came"));
  });
}

void ConnectionTable::HelloCame(const std::shared_ptr<Stream>& stream, const StreamHello& hello) {
  const auto found = connections_.find(stream.get());
  const Status status = host_->CheckPeer(*stream, hello);
  if (!status.ok()) {
    LOG_WARN("refused {}: {}", stream->remote().address, status.ToString());
    return found == connections_.end() ? stream->Close(status) : Close(found->second, status);
  }
  found == connections_.end() ? OfferCame(stream, hello)
                              : AnswerCame(ConnectionPtr(found->second), stream, hello);
}

void ConnectionTable::AnswerCame(const ConnectionPtr& connection,
                                 const std::shared_ptr<Stream>& stream, const StreamHello& hello) {
  if (connection->closing) return;
  const bool in_place =
      connection->lanes[IndexOf(hello.lane)] == stream && hello.connection == connection->number &&
      (connection->incarnation == 0 || connection->incarnation == hello.incarnation);
  if (hello.id != connection->peer || !in_place) {
    return Close(connection, PermissionDenied("called " + connection->peer.value + ", but " +
                                              hello.id.value + " answers, or another call of it"));
  }
  connection->incarnation = hello.incarnation;
  connection->hello_came[IndexOf(hello.lane)] = true;
  if (connection->complete()) Open(peers_[connection->peer], connection);
}

void ConnectionTable::OfferCame(const std::shared_ptr<Stream>& stream, const StreamHello& hello) {
  if (!strangers_.contains(stream)) return;
  Peer& peer = peers_[hello.id];
  if (hello.id == self_ || hello.incarnation == peer.refused_incarnation) {
    return stream->Close(PermissionDenied(self_.value + " does not talk to " + hello.id.value));
  }
  ConnectionPtr& offered = peer.offered;
  if (offered &&
      (offered->closing || offered->incarnation != hello.incarnation ||
       offered->number != hello.connection || offered->hello_came[IndexOf(hello.lane)])) {
    Close(offered, Cancelled(hello.id.value + " has called again"));
    offered = nullptr;
  }
  if (!offered) {
    offered = std::make_shared<Connection>();
    offered->peer = hello.id;
    offered->incarnation = hello.incarnation;
    offered->number = hello.connection;
    host_->After(options_.offer_deadline, [this, waiting = std::weak_ptr(offered)] {
      const auto late = waiting.lock();
      if (late && !late->open)
        Close(late, DeadlineExceeded("another connection to the same peer stayed open"));
    });
  }
  strangers_.erase(stream);
  connections_[stream.get()] = offered;
  offered->lanes[IndexOf(hello.lane)] = stream;
  offered->hello_came[IndexOf(hello.lane)] = true;
  Decide(peer);
}

void ConnectionTable::Decide(Peer& peer) {
  const ConnectionPtr offered = peer.offered;
  if (closed_ || !offered || offered->closing || !offered->complete()) return;
  if (const ConnectionPtr current = peer.current) {
    if (current->closing) return;  // decided again when it has ended
    if (offered->incarnation < current->incarnation) {
      return Close(offered,
                   AlreadyExists("a later process of " + offered->peer.value + " is here"));
    }
    if (offered->incarnation > current->incarnation) {
      Close(current, Unavailable(current->peer.value + " has restarted"));
    } else if (!current->dialled) {
      Close(current, Unavailable(current->peer.value + " has called again"));
    }
    return;  // this end dialled the current one: if the peer has lost it, it soon ends here as well
  }
  if (peer.dialling && !peer.dialling->closing && self_ < offered->peer) {
    // Our dial goes first. But the peer must not give up its call where only the peer can reach us.
    return host_->After(
        options_.collision_deadline, [this, waiting = std::weak_ptr(peer.dialling)] {
          const auto late = waiting.lock();
          if (late && !late->open)
            Close(late, DeadlineExceeded("no answer, while a call of the other side waits"));
        });
  }
  for (const Lane lane : {Lane::kControl, Lane::kData}) {
    offered->lane(lane).SendHello(host_->MakeHello(lane, offered->number));
  }
  Open(peer, offered);
}

void ConnectionTable::Open(Peer& peer, const ConnectionPtr& connection) {
  if (peer.dialling && peer.dialling != connection) {
    Close(peer.dialling, Cancelled("the other side's call is kept"));
  }
  if (peer.offered && peer.offered != connection) {
    Close(peer.offered, AlreadyExists("the other side's call is kept"));
  }
  peer.dialling = peer.offered = nullptr;
  peer.current = connection;
  peer.last_incarnation = connection->incarnation;
  if (peer.failures > 1) {
    LOG_INFO("{} answers again after {} failed calls", connection->peer.value, peer.failures);
  }
  peer.failures = 0;
  connection->open = true;
  connection->slot.reset();
  host_->OnOpen(connection);
}

void ConnectionTable::Close(const ConnectionPtr& connection, const Status& why) {
  if (connection->closing) return;
  connection->closing = true;
  connection->why = why;
  if (connection->open) host_->OnClosing(connection);
  for (const auto& stream : connection->lanes) {
    if (stream) stream->Close(why);
  }
}

void ConnectionTable::StreamDone(const std::shared_ptr<Stream>& stream, const Status& why) {
  strangers_.erase(stream);
  const auto found = connections_.find(stream.get());
  if (found == connections_.end()) return;
  const ConnectionPtr connection = found->second;
  connections_.erase(found);
  ++connection->ended;
  Close(connection, why);
  const auto lanes =
      kLaneCount - std::count(connection->lanes.begin(), connection->lanes.end(), nullptr);
  if (connection->ended == lanes) Ended(connection);
}

void ConnectionTable::Ended(const ConnectionPtr& connection) {
  connection->slot.reset();
  Peer& peer = peers_[connection->peer];
  if (connection->open) {
    host_->OnBroken(connection);
    if (peer.current == connection) peer.current = nullptr;
  }
  if (peer.dialling == connection) {
    peer.dialling = nullptr;
    if (++peer.failures == 2) {
      LOG_WARN("cannot reach {}: {}; trying again", connection->peer.value,
               connection->why.ToString());
    }
  }
  if (peer.offered == connection) peer.offered = nullptr;
  Decide(peer);
  if (peer.current || peer.dialling || peer.offered) return;
  // Back off also where this end tries again only if there is something to send.
  if (peer.wanted) DialLater(connection->peer, peer);
  peer.wanted = peer.kept;
  // What is known of failures makes the next dial wait.
  const bool known = peer.wanted || peer.failures > 0 || peer.refused_incarnation != 0;
  if (!known) peers_.erase(connection->peer);
}

void ConnectionTable::CloseAll(const Status& why) {
  closed_ = true;
  for (const auto& stream : std::set(strangers_)) stream->Close(why);
  for (auto& [id, peer] : peers_) {
    for (const ConnectionPtr& connection : {peer.current, peer.dialling, peer.offered}) {
      if (connection) Close(connection, why);
    }
  }
}

}  // namespace swarm::net
