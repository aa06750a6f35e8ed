#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace swarm::simulation {
namespace {

using std::chrono::milliseconds;

constexpr Duration kBackoffMin = milliseconds(5);
constexpr Duration kBackoffMax = milliseconds(400);
/// Frames that may be under way when a connection breaks, and are sent again.
constexpr std::size_t kSentMax = 8;

}  // namespace

const Network::End* Network::FindEnd(Pid pid, const WorkerId& peer) const {
  const auto ends = ends_.find(pid);
  if (ends == ends_.end()) return nullptr;
  const auto end = ends->second.find(peer);
  return end == ends->second.end() ? nullptr : &end->second;
}

Timepoint Network::UnblockedAt(Pid from, Pid to) const {
  if (blocked_.empty()) return {};
  const auto it = blocked_.find({world_.name(from), world_.name(to)});
  return it == blocked_.end() ? Timepoint() : it->second;
}

bool Network::IsBlocked(Pid from, Pid to) const { return UnblockedAt(from, to) > world_.now(); }

void Network::Block(const WorkerId& from, const WorkerId& to, Timepoint until) {
  Timepoint& at = blocked_[{from, to}];
  at = std::max(at, until);
}

void Network::Unblock(const WorkerId& a, const WorkerId& b) {
  blocked_.erase({a, b});
  blocked_.erase({b, a});
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    const WorkerId& p = world_.name(connections_[id].pids[0]);
    const WorkerId& q = world_.name(connections_[id].pids[1]);
    if (!((p == a && q == b) || (p == b && q == a))) continue;
    for (const int end : {0, 1}) {
      for (const int lane : {0, 1}) SchedulePump(id, end, lane);
    }
  }
}

bool Network::IsConnected(Pid from, const WorkerId& peer) const {
  const End* end = FindEnd(from, peer);
  return end != nullptr && end->connection != kNone;
}

bool Network::CanHear(Pid listener, const WorkerId& peer) const {
  const End* end = FindEnd(listener, peer);
  if (end == nullptr || end->connection == kNone) return false;
  const Connection& connection = connections_[end->connection];
  const Pid other = connection.pids[connection.pids[0] == listener ? 1 : 0];
  return !connection.broken && world_.IsRunning(other) && !IsBlocked(other, listener);
}

bool Network::CouldHear(Pid listener, const WorkerId& peer) const {
  const Pid* other = world_.Find(peer);
  return other != nullptr && world_.IsRunning(*other) && !IsBlocked(*other, listener);
}

void Network::Dial(Pid from, const WorkerId& to) {
  End& end = EndOf(from, to);
  if (end.connection != kNone || end.dialing) return;
  end.dialing = true;
  end.backoff = kBackoffMin;
  world_.After(from, world_.Draw(milliseconds(0), kBackoffMin), [=, this] { Attempt(from, to); });
}

void Network::Attempt(Pid from, const WorkerId& to) {
  End& end = EndOf(from, to);
  if (!end.dialing) return;
  const Pid* target = world_.Find(to);
  const bool possible = target != nullptr && *target != from && world_.IsRunning(*target) &&
                        !IsBlocked(from, *target) && !IsBlocked(*target, from);
  if (possible) {
    Open(from, *target);
    return;
  }
  end.backoff = std::min(2 * end.backoff, kBackoffMax);
  world_.After(from, world_.Draw(end.backoff / 2, end.backoff), [=, this] { Attempt(from, to); });
}

void Network::Open(Pid a, Pid b) {
  // The other end may have opened one in the meantime, or not know yet that the last one broke.
  const ConnectionId old = EndOf(b, world_.name(a)).connection;
  if (old != kNone && !connections_[old].broken) {
    const auto& pids = connections_[old].pids;
    if (pids[0] == a || pids[1] == a) return;
  }
  const ConnectionId id = connections_.size();
  connections_.push_back({.pids = {a, b}});
  Raise(a, world_.name(b), id);
  Raise(b, world_.name(a), id);
}

void Network::Raise(Pid pid, const WorkerId& peer, ConnectionId id) {
  world_.RunIn(pid, [=, this] {
    if (connections_[id].broken) return;
    End& end = EndOf(pid, peer);
    if (end.connection == id) return;
    if (end.connection != kNone) Lower(pid, peer, end.connection);
    end.connection = id;
    end.dialing = false;
    world_.Log(world_.name(pid).value, [&] { return "connected to " + peer.value; });
    world_.process(pid)->OnPeerUp(peer);
    Repeat(pid, end);
    while (!end.outbox.empty() && end.connection == id) {
      auto [lane, envelope] = std::move(end.outbox.front());
      end.outbox.pop_front();
      Transmit(pid, id, lane, std::move(envelope));
    }
  });
}

void Network::Repeat(Pid from, End& end) {
  if (options_.repeat_probability == 0 || end.sent.empty()) return;
  if (!world_.Chance(options_.repeat_probability)) return;
  for (Envelope& envelope : std::exchange(end.sent, {})) {
    if (end.connection != kNone) Transmit(from, end.connection, Lane::kData, std::move(envelope));
  }
}

void Network::Lower(Pid pid, const WorkerId& peer, ConnectionId id) {
  world_.RunIn(pid, [=, this] {
    End& end = EndOf(pid, peer);
    if (end.connection != id) return;
    end.connection = kNone;
    world_.Log(world_.name(pid).value, [&] { return "lost " + peer.value; });
    world_.process(pid)->OnPeerDown(peer);
    if (!end.outbox.empty()) Dial(pid, peer);
  });
}

void Network::Send(Pid from, const WorkerId& to, Lane lane, Envelope envelope) {
  End& end = EndOf(from, to);
  if (end.connection == kNone || !end.outbox.empty()) {
    end.outbox.emplace_back(lane, std::move(envelope));
    Dial(from, to);
    return;
  }
  Transmit(from, end.connection, lane, std::move(envelope));
}

void Network::Transmit(Pid from, ConnectionId id, Lane lane, Envelope envelope) {
  Connection& connection = connections_[id];
  const int end = connection.pids[0] == from ? 0 : 1;
  if (options_.repeat_probability > 0 && lane == Lane::kData) {
    auto& sent = EndOf(from, world_.name(connection.pids[1 - end])).sent;
    sent.push_back(envelope);
    if (sent.size() > kSentMax) sent.pop_front();
  }
  if (connection.broken) return;  // and this end does not know it yet
  const int index = static_cast<int>(lane);
  Direction& direction = connection.directions[end][index];
  const bool spike = options_.spike_probability > 0 && world_.Chance(options_.spike_probability);
  const Duration delay =
      world_.Draw(options_.delay_min, spike ? options_.spike_max : options_.delay_max);
  direction.queue.push_back(
      {world_.now() + delay, std::make_shared<const Envelope>(std::move(envelope))});
  if (!direction.pumping) SchedulePump(id, end, index);
}

void Network::SchedulePump(ConnectionId id, int end, int lane) {
  Connection& connection = connections_[id];
  Direction& direction = connection.directions[end][lane];
  direction.pumping = !direction.queue.empty();
  if (!direction.pumping) return;
  const Timepoint at = std::max({world_.now(), direction.queue.front().at,
                                 UnblockedAt(connection.pids[end], connection.pids[1 - end])});
  world_.After(at - world_.now(), [=, this] { Pump(id, end, lane); });
}

void Network::Pump(ConnectionId id, int end, int lane) {
  Connection& connection = connections_[id];
  if (connection.broken || connection.directions[end][lane].queue.empty()) return;
  const Pid from = connection.pids[end], to = connection.pids[1 - end];
  if (!IsBlocked(from, to)) {
    auto envelope = std::move(connection.directions[end][lane].queue.front().envelope);
    connection.directions[end][lane].queue.pop_front();
    world_.RunIn(to, [=, this, envelope = std::move(envelope)] {
      const WorkerId& peer = world_.name(from);
      if (EndOf(to, peer).connection != id) return;
      world_.process(to)->OnMessage(peer, *envelope);
    });
  }
  SchedulePump(id, end, lane);
}

void Network::Break(Pid a, Pid b, Duration notice) {
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    Connection& connection = connections_[id];
    const auto& [p, q] = connection.pids;
    if (connection.broken || !((p == a && q == b) || (p == b && q == a))) continue;
    connection.broken = true;
    for (const auto& [self, peer] : {std::pair(p, q), std::pair(q, p)}) {
      world_.After(self, world_.Draw(milliseconds(1), notice),
                   [this, self = self, name = world_.name(peer), id] { Lower(self, name, id); });
    }
  }
}

void Network::BreakAll(Pid pid, Duration notice) {
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    Connection& connection = connections_[id];
    if (connection.broken || (connection.pids[0] != pid && connection.pids[1] != pid)) continue;
    const Pid peer = connection.pids[connection.pids[0] == pid ? 1 : 0];
    // What it had sent may still arrive until the peer notices.
    world_.After(world_.Draw(milliseconds(1), notice), [=, this] {
      if (connections_[id].broken) return;
      connections_[id].broken = true;
      world_.RunIn(peer, [=, this] { Lower(peer, world_.name(pid), id); });
    });
  }
}

void Network::Forget(Pid from, const WorkerId& peer) {
  End& end = EndOf(from, peer);
  end.outbox.clear();
  end.sent.clear();
  end.dialing = false;
  if (end.connection == kNone) return;
  const ConnectionId id = end.connection;
  world_.After(world_.Draw(milliseconds(5), milliseconds(50)), [=, this] {
    const Connection& connection = connections_[id];
    const Pid other = connection.pids[connection.pids[0] == from ? 1 : 0];
    connections_[id].broken = true;
    End& own = EndOf(from, peer);
    if (own.connection == id) own.connection = kNone;
    Lower(other, world_.name(from), id);
  });
}

void Network::DropOutbox(Pid from, const WorkerId& peer) { EndOf(from, peer).outbox.clear(); }

void Network::MoveOutbox(Pid from, const WorkerId& old_peer, const WorkerId& new_peer) {
  End& old_end = EndOf(from, old_peer);
  old_end.dialing = false;
  End& new_end = EndOf(from, new_peer);
  for (auto& item : old_end.outbox) new_end.outbox.push_back(std::move(item));
  old_end.outbox.clear();
}

}  // namespace swarm::simulation
