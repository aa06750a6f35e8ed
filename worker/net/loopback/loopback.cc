#include "worker/net/loopback/loopback.h"

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "base/loop.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

/// Two nodes that are connected. Its address tells this connection from earlier ones.
struct Connection {
  /// Bytes under way, by direction (0: from the smaller name) and lane.
  std::array<std::array<std::atomic<std::size_t>, kLaneCount>, 2> bytes_under_way{};
  /// The receiver has disconnected, and refuses messages still under way in this direction.
  std::array<std::atomic<bool>, 2> refused{};
};

int Direction(const WorkerId& from, const WorkerId& to) { return from < to ? 0 : 1; }

}  // namespace

/// One endpoint and the loop that passes events to its handler.
class LoopbackNetwork::Node {
 public:
  Node(WorkerId self, EndpointHandler* handler, const LoopbackOptions& options)
      : self(std::move(self)), options(options), handler_(handler) {}

  /// Calls the handler, when the latency has passed.
  void Post(std::function<void(EndpointHandler&)> event) {
    const auto call = [this, event = std::move(event)] {
      if (!stopping_) event(*handler_);
    };
    options.latency > Duration::zero() ? loop_.PostAt(Clock::now() + options.latency, call)
                                       : loop_.Post(call);
  }

  /// Drops the events that wait, and waits for the call that is under way.
  void Stop() {
    stopping_ = true;
    loop_.Stop();
  }

  const WorkerId self;
  const LoopbackOptions options;
  std::atomic<std::uint64_t> messages_sent{0}, bytes_sent{0};
  std::atomic<std::uint64_t> messages_received{0}, bytes_received{0};
  std::atomic<std::uint64_t> messages_refused{0};

 private:
  EndpointHandler* const handler_;
  std::atomic<bool> stopping_{false};
  // Its queue is bounded by the senders' windows.
  Loop loop_{"loopback", nullptr, std::numeric_limits<std::size_t>::max()};
};

/// The endpoints that exist, the connections that they want, and those that are open.
class LoopbackNetwork::Hub {
 public:
  bool Add(const std::shared_ptr<Node>& node) {
    const std::lock_guard lock(mutex_);
    if (!nodes_.emplace(node->self, node).second) return false;
    numbers_[node->self] = ++last_number_;
    for (const auto& [name, other] : nodes_) Meet(node->self, name);
    return true;
  }

  void Remove(const WorkerId& self) {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, node] : nodes_) {
      if (connections_.erase(Pair(self, peer)) == 0) continue;
      Tell(peer, self, Unavailable(self.value + " is gone"));
    }
    nodes_.erase(self);
    std::erase_if(wanted_, [&](const auto& pair) { return pair.first == self; });
    std::erase_if(known_, [&](const auto& pair) { return pair.first == self; });
    std::erase_if(met_, [&](const auto& entry) { return entry.first.first == self; });
    std::erase_if(refused_, [&](const auto& entry) { return entry.first.first == self; });
  }

  void Want(const WorkerId& self, const WorkerId& peer) {
    const std::lock_guard lock(mutex_);
    wanted_.emplace(self, peer);
    refused_.erase({self, peer});
    Meet(self, peer);
  }

  void Know(const WorkerId& self, const WorkerId& peer) {
    const std::lock_guard lock(mutex_);
    wanted_.erase({self, peer});
    refused_.erase({self, peer});
    known_.emplace(self, peer);
  }

  void Forget(const WorkerId& self, const WorkerId& peer) {
    const std::lock_guard lock(mutex_);
    wanted_.erase({self, peer});
    known_.erase({self, peer});
    refused_[{self, peer}] = met_[{self, peer}];
    if (const auto connection = Find(self, peer)) {
      connection->refused[Direction(peer, self)] = true;
      connections_.erase(Pair(self, peer));
      Tell(peer, self, Unavailable(self.value + " closed the connection"));
    }
  }

  void Break(const WorkerId& a, const WorkerId& b, bool keep_apart) {
    const std::lock_guard lock(mutex_);
    if (keep_apart) apart_.insert(Pair(a, b));
    Part(a, b, Unavailable("the connection broke"));
    Meet(a, b);
  }

  void Rejoin(const WorkerId& a, const WorkerId& b) {
    const std::lock_guard lock(mutex_);
    apart_.erase(Pair(a, b));
    Meet(a, b);
  }

  Status Send(Node& from, const WorkerId& to, Lane lane, Envelope envelope) {
    if (envelope.payload.size() > from.options.payload_bytes_max) {
      return InvalidArgument("a payload of " + std::to_string(envelope.payload.size()) +
                             " bytes to " + to.value + "; at most " +
                             std::to_string(from.options.payload_bytes_max));
    }
    ASSIGN_OR_RETURN(std::string header, EncodeHeader(envelope.message));
    const std::size_t bytes = header.size() + envelope.payload.size();
    const std::lock_guard lock(mutex_);
    const auto connection = Find(from.self, to);
    if (!connection) {
      if (known_.contains({from.self, to})) Open(from.self, to);
      return Unavailable("no connection to " + to.value);
    }
    const int direction = Direction(from.self, to);
    auto& under_way = connection->bytes_under_way[direction][static_cast<std::size_t>(lane)];
    const std::size_t window =
        lane == Lane::kControl ? from.options.control_window_bytes : from.options.data_window_bytes;
    if (under_way > 0 && under_way + bytes > window) {
      return ResourceExhausted("the window of " + std::to_string(window) + " bytes to " + to.value +
                               " is full; send it later or to another");
    }
    under_way += bytes;
    ++from.messages_sent;
    from.bytes_sent += bytes;
    const std::shared_ptr<Node>& receiver = nodes_.at(to);
    receiver->Post([receiver = receiver.get(), connection, direction, &under_way, bytes, lane,
                    sender = from.self, header = std::move(header),
                    payload = std::move(envelope.payload)](EndpointHandler& handler) {
      if (connection->refused[direction]) return;
      Deliver(*receiver, handler, sender, lane, header, payload);
      under_way -= bytes;
    });
    return Status();
  }

 private:
  using Names = std::pair<WorkerId, WorkerId>;

  static Names Pair(const WorkerId& a, const WorkerId& b) {
    return a < b ? Names{a, b} : Names{b, a};
  }

  static void Deliver(Node& receiver, EndpointHandler& handler, const WorkerId& sender, Lane lane,
                      const std::string& header, const Bytes& payload) {
    auto message = DecodeHeader(std::as_bytes(std::span(header)));
    if (!message.ok()) {
      ++receiver.messages_refused;
      return;
    }
    ++receiver.messages_received;
    receiver.bytes_received += header.size() + payload.size();
    handler.OnMessage(sender, lane, Envelope{std::move(message).value(), payload});
  }

  std::shared_ptr<Connection> Find(const WorkerId& a, const WorkerId& b) const {
    const auto found = connections_.find(Pair(a, b));
    return found == connections_.end() ? nullptr : found->second;
  }

  bool Refuses(const WorkerId& self, const WorkerId& peer) const {
    const auto refused = refused_.find({self, peer});
    return refused != refused_.end() && refused->second == numbers_.at(peer);
  }

  /// Connects the two if one of them wants it.
  void Meet(const WorkerId& a, const WorkerId& b) {
    if (wanted_.contains({a, b}) || wanted_.contains({b, a})) Open(a, b);
  }

  /// Connects the two if both exist and nothing forbids it.
  void Open(const WorkerId& a, const WorkerId& b) {
    if (a == b || apart_.contains(Pair(a, b)) || Find(a, b)) return;
    if (!nodes_.contains(a) || !nodes_.contains(b) || Refuses(a, b) || Refuses(b, a)) return;
    met_[{a, b}] = numbers_.at(b);
    met_[{b, a}] = numbers_.at(a);
    connections_.emplace(Pair(a, b), std::make_shared<Connection>());
    nodes_.at(a)->Post([b](EndpointHandler& handler) { handler.OnPeerUp(b); });
    nodes_.at(b)->Post([a](EndpointHandler& handler) { handler.OnPeerUp(a); });
  }

  void Part(const WorkerId& a, const WorkerId& b, const Status& why) {
    if (connections_.erase(Pair(a, b)) == 0) return;
    Tell(a, b, why);
    Tell(b, a, why);
  }

  void Tell(const WorkerId& whom, const WorkerId& peer, const Status& why) {
    nodes_.at(whom)->Post([peer, why](EndpointHandler& handler) { handler.OnPeerDown(peer, why); });
  }

  std::mutex mutex_;
  std::map<WorkerId, std::shared_ptr<Node>> nodes_;
  std::set<Names> wanted_;   // (caller, peer)
  std::set<Names> known_;    // (caller, peer): wanted when something is sent
  std::uint64_t last_number_ = 0;
  std::map<WorkerId, std::uint64_t> numbers_;  // of the processes, a restarted one has another
  std::map<Names, std::uint64_t> met_;         // (caller, peer): the last one that was connected
  /// (caller, peer): a process of `peer`, until `caller` connects again.
  std::map<Names, std::uint64_t> refused_;
  std::set<Names> apart_;    // sorted pairs
  std::map<Names, std::shared_ptr<Connection>> connections_;  // by sorted pair
};

/// The object that the owner of an endpoint holds.
class LoopbackNetwork::NodeEndpoint final : public Endpoint {
 public:
  NodeEndpoint(std::shared_ptr<Hub> hub, std::shared_ptr<Node> node)
      : hub_(std::move(hub)), node_(std::move(node)) {}
  ~NodeEndpoint() override {
    hub_->Remove(node_->self);
    node_->Stop();
  }

  void Connect(const WorkerId& peer, const std::vector<protocol::Address>&) override {
    hub_->Want(node_->self, peer);
  }
  void Know(const WorkerId& peer, const std::vector<protocol::Address>&) override {
    hub_->Know(node_->self, peer);
  }
  void Disconnect(const WorkerId& peer) override { hub_->Forget(node_->self, peer); }
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) override {
    return hub_->Send(*node_, to, lane, std::move(envelope));
  }
  std::vector<protocol::Address> addresses() const override {
    return {{"cluster", "loopback:" + node_->self.value, ""}};
  }
  std::map<WorkerId, protocol::Link> links() const override { return {}; }
  Traffic traffic() const override {
    return {node_->messages_sent, node_->bytes_sent, node_->messages_received,
            node_->bytes_received, node_->messages_refused};
  }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Node> node_;
};

LoopbackNetwork::LoopbackNetwork() : hub_(std::make_shared<Hub>()) {}
LoopbackNetwork::~LoopbackNetwork() = default;

Result<std::unique_ptr<Endpoint>> LoopbackNetwork::CreateEndpoint(const WorkerId& self,
                                                                  EndpointHandler* handler,
                                                                  const LoopbackOptions& options) {
  auto node = std::make_shared<Node>(self, handler, options);
  if (!hub_->Add(node)) {
    node->Stop();
    return AlreadyExists("an endpoint named " + self.value + " lives already");
  }
  return std::unique_ptr<Endpoint>(std::make_unique<NodeEndpoint>(hub_, std::move(node)));
}

void LoopbackNetwork::Break(const WorkerId& a, const WorkerId& b, bool keep_apart) {
  hub_->Break(a, b, keep_apart);
}

void LoopbackNetwork::Rejoin(const WorkerId& a, const WorkerId& b) { hub_->Rejoin(a, b); }

}  // namespace swarm::net
