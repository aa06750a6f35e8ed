// What lies between the processes: connections that deliver in order, lose what is in flight when
// they break, and whose two ends notice a break at different times; and at each end an outbox for
// peers that are not connected (as net::Outbox).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/simulation/world.h"

namespace swarm::simulation {

enum class Lane : std::uint8_t { kControl = 0, kData = 1 };

struct NetworkOptions {
  Duration delay_min = std::chrono::microseconds(50);
  Duration delay_max = std::chrono::milliseconds(2);
  double spike_probability = 0;
  Duration spike_max = std::chrono::milliseconds(300);
  /// Of a connection that begins with the last data of the one before, which may have arrived.
  double repeat_probability = 0;
};

class Network {
 public:
  Network(World* world, NetworkOptions options) : world_(*world), options_(options) {}

  /// Keeps trying to connect `from` with the process of that name until it is, or is forgotten.
  void Dial(Pid from, const WorkerId& to);
  /// Sends on the open connection, or keeps the message until there is one (and dials).
  void Send(Pid from, const WorkerId& to, Lane lane, Envelope envelope);
  /// Drops what waits for the peer, and closes the connection when what is sent at once is on its
  /// way. This end is not told.
  void Forget(Pid from, const WorkerId& peer);
  /// Drops what waits for the peer.
  void DropOutbox(Pid from, const WorkerId& peer);
  /// What waits for one peer waits for another instead.
  void MoveOutbox(Pid from, const WorkerId& old_peer, const WorkerId& new_peer);
  bool IsConnected(Pid from, const WorkerId& peer) const;
  /// Whether something sent now would arrive: for the detection of silence.
  bool CanHear(Pid listener, const WorkerId& peer) const;
  /// The same once they are connected.
  bool CouldHear(Pid listener, const WorkerId& peer) const;

  // Faults.

  /// The connection between the two breaks; each end hears of it after at most `notice`.
  void Break(Pid a, Pid b, Duration notice);
  /// All connections of a process that was killed.
  void BreakAll(Pid pid, Duration notice);
  /// Nothing of `from` reaches `to` until then: it waits, as what TCP sends again. A cut is one of
  /// machines: processes of these names that start later do not reach each other either.
  void Block(const WorkerId& from, const WorkerId& to, Timepoint until);
  /// From now on the two reach each other.
  void Unblock(const WorkerId& a, const WorkerId& b);

 private:
  struct Item {
    Timepoint at;
    std::shared_ptr<const Envelope> envelope;
  };
  struct Direction {
    std::deque<Item> queue;
    bool pumping = false;
  };
  struct Connection {
    std::array<Pid, 2> pids;
    bool broken = false;
    std::array<std::array<Direction, 2>, 2> directions;  // [sending end][lane]
  };
  using ConnectionId = std::size_t;
  static constexpr ConnectionId kNone = ~ConnectionId{0};
  /// What a process knows of one peer.
  struct End {
    ConnectionId connection = kNone;
    bool dialing = false;
    Duration backoff{};
    std::deque<std::pair<Lane, Envelope>> outbox;
    std::deque<Envelope> sent;  ///< the last data, the oldest first
  };

  End& EndOf(Pid pid, const WorkerId& peer) { return ends_[pid][peer]; }
  const End* FindEnd(Pid pid, const WorkerId& peer) const;
  bool IsBlocked(Pid from, Pid to) const;
  Timepoint UnblockedAt(Pid from, Pid to) const;
  void Attempt(Pid from, const WorkerId& to);
  void Open(Pid a, Pid b);
  void Raise(Pid pid, const WorkerId& peer, ConnectionId id);
  void Lower(Pid pid, const WorkerId& peer, ConnectionId id);
  void Transmit(Pid from, ConnectionId id, Lane lane, Envelope envelope);
  /// Sends the last data again, with some luck.
  void Repeat(Pid from, End& end);
  void Pump(ConnectionId id, int end, int lane);
  void SchedulePump(ConnectionId id, int end, int lane);

  World& world_;
  const NetworkOptions options_;
  std::deque<Connection> connections_;
  std::map<Pid, std::map<WorkerId, End>> ends_;
  std::map<std::pair<WorkerId, WorkerId>, Timepoint> blocked_;
};

}  // namespace swarm::simulation
