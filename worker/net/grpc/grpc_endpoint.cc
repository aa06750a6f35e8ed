#include "worker/net/grpc/grpc_endpoint.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/host_port.h"
#include "base/log.h"
#include "base/loop.h"
#include "worker/net/grpc/channel_arguments.h"
#include "worker/net/grpc/connection_table.h"
#include "worker/net/grpc/credentials.h"
#include "worker/net/grpc/gate.h"
#include "worker/net/grpc/process.h"
#include "worker/net/grpc/relay/relay.h"
#include "worker/net/grpc/relay/tunnels.h"
#include "worker/net/grpc/revocations.h"
#include "worker/net/grpc/status.h"
#include "worker/net/grpc/tcp_tuning.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

constexpr Duration kStopDeadline = std::chrono::seconds(10);
/// The period of checks of the certificate files.
constexpr Duration kRefreshPeriod = std::chrono::seconds(1);

/// All members of a swarm without a mesh at once, and few enough to be complete in time.
constexpr std::size_t kDialSlots = 64;

/// Ends a call at once.
class RefusingReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusingReactor(const Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

/// Joins the parts: the table of connections runs on the loop; Send finds its connection in
/// routes_; calls of the handler pass the gate.
class GrpcEndpoint::Core final : public StreamOwner,
                                 public ConnectionHost,
                                 public grpc::CallbackGenericService,
                                 public std::enable_shared_from_this<Core> {
 public:
  Core(const GrpcOptions& options, EndpointHandler* handler,
       std::unique_ptr<Credentials> credentials)
      : options_(options),
        handler_(handler),
        credentials_(std::move(credentials)),
        revocations_(options.revocations ? options.revocations
                                         : std::make_shared<Revocations>(options.job, /*file=*/"")),
        buffers_(options.receive_buffers
                     ? options.receive_buffers
                     : std::make_shared<ReceiveBuffers>(options.unfinished_bytes_max,
                                                        options.idle_buffer_bytes_max)),
        loop_(options.loop ? options.loop : std::make_shared<Loop>("net")),
        dial_slots_(options.dial_slots ? options.dial_slots
                                       : std::make_shared<DialSlots>(kDialSlots)),
        table_(options.self, {.backoff_max = options.redial_max, .idle_max = options.idle_max},
               this) {}

  Status Listen() {
    revocations_->Refresh();
    RefreshLater();
    if (options_.relays) MakeRelay();
    if (options_.listen.empty()) return ListenAtRelay();
    ASSIGN_OR_RETURN(const int port, ListenOn(options_.listen));
    std::string dial = WithBrackets(options_.advertise);
    if (dial.empty()) {
      dial = options_.listen.substr(0, options_.listen.rfind(':') + 1) + std::to_string(port);
    }
    addresses_ = {{options_.scope, dial, ""}};
    if (options_.gateway) addresses_.push_back(*options_.gateway);
    return Status();
  }

  /// Returns the port.
  Result<int> ListenOn(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, credentials_->ForListening(), &port);
    builder.RegisterCallbackGenericService(this);
    SetServerArguments(Caps(), &builder);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) return Unavailable("cannot listen on " + address);
    return port;
  }

  Status ListenAtRelay() {
    if (!options_.relay) return Status();
    auto make_channel = [this](std::size_t way) {
      const std::vector<protocol::Address>& all = options_.relay->addresses;
      return MakeChannel(options_.relay->id, all[way % all.size()], Lane::kData);
    };
    tunnels_ = std::make_unique<Tunnels>(
        Tunnels::Options{options_.job, options_.self, std::move(make_channel)});
    RETURN_IF_ERROR(ListenOn(tunnels_->listen()).status());
    tunnels_->BeCallable();
    addresses_ = {{protocol::kRelayScope, "the relay", ""}};
    return Status();
  }

  void MakeRelay() {
    relay_ = std::make_unique<Relay>(
        [this](const std::vector<std::string>& uris, const RelayHello& hello) -> Status {
          if (protocol::IsOnlooker(hello.id) || hello.id == options_.self) {
            return PermissionDenied(hello.id.value + " is no worker");
          }
          RETURN_IF_ERROR(CheckJob(hello.id, hello.job, options_.job));
          return CheckCaller(uris, hello.id);
        });
  }

  void Stop() {
    SWARM_CHECK(gate_.Close(Clock::now() + kStopDeadline),
                "a handler of " + options_.self.value + " does not return");
    stopping_ = true;
    Post([this] { table_.CloseAll(Unavailable(options_.self.value + " is leaving")); });
    {
      std::unique_lock lock(mutex_);
      routes_.clear();
      const bool ended = streams_gone_.wait_until(lock, Clock::now() + kStopDeadline,
                                                  [this] { return stream_count_ == 0; });
      if (!ended) LOG_WARN("{} calls have not ended; cancelling them", stream_count_);
    }
    if (relay_) relay_->Close(Unavailable(options_.self.value + " is leaving"));
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    // Work posted to a shared loop finds this object alive, or is dropped.
    if (!options_.loop) loop_->Stop();
    server_.reset();
    tunnels_.reset();
  }

  void Connect(const WorkerId& peer, std::vector<protocol::Address> addresses) {
    LeaveUsable(addresses);
    {
      const std::lock_guard lock(mutex_);
      known_.insert_or_assign(peer, Known{addresses, true});
    }
    Post([this, peer, addresses] { table_.Want(peer, addresses); });
  }

  void Know(const WorkerId& peer, std::vector<protocol::Address> addresses) {
    LeaveUsable(addresses);
    bool was_kept = false;
    {
      const std::lock_guard lock(mutex_);
      Known& known = known_[peer];
      was_kept = known.kept;
      known = {addresses, false};
    }
    if (was_kept) Post([this, peer] { table_.Release(peer); });
  }

  void Disconnect(const WorkerId& peer) {
    {
      const std::lock_guard lock(mutex_);
      known_.erase(peer);
    }
    if (const auto connection = TakeRoute(peer)) connection->muted = true;
    Post([this, peer] { table_.Forget(peer); });
  }

  Status Send(const WorkerId& to, Lane lane, Envelope envelope) {
    if (envelope.payload.size() > options_.payload_bytes_max) {
      return InvalidArgument("a payload of " + std::to_string(envelope.payload.size()) +
                             " bytes to " + to.value + "; at most " +
                             std::to_string(options_.payload_bytes_max));
    }
    ASSIGN_OR_RETURN(std::string header, EncodeHeader(envelope.message));
    const auto connection = Route(to);
    if (!connection) {
      DialIfKnown(to);
      return Unavailable("no connection to " + to.value);
    }
    connection->used.store(true, std::memory_order_relaxed);
    const std::size_t bytes = header.size() + envelope.payload.size();
    const Status status =
        connection->lane(lane).Send(std::move(header), std::move(envelope.payload));
    if (!status.ok()) return status.WithContext(to.value);
    ++messages_sent_;
    bytes_sent_ += bytes;
    return Status();
  }

  const std::vector<protocol::Address>& addresses() const { return addresses_; }
  std::map<WorkerId, protocol::Link> links() const {
    const std::lock_guard lock(mutex_);
    return links_;
  }
  Traffic traffic() const {
    return {.messages_sent = messages_sent_,
            .bytes_sent = bytes_sent_,
            .messages_received = messages_received_,
            .bytes_received = bytes_received_,
            .bytes_relayed = relay_ ? relay_->bytes() : 0,
            .messages_refused = messages_refused_};
  }

  // grpc::CallbackGenericService
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() == kRelayMethod && relay_) return relay_->Accept(context);
    if (context->method() != kExchangeMethod) {
      return new RefusingReactor(
          Unimplemented("only " + std::string(kExchangeMethod) + " is here"));
    }
    if (stopping_) return new RefusingReactor(Unavailable(options_.self.value + " is leaving"));
    CountStream();
    const auto stream = AcceptedStream::Start(shared_from_this(), MakeStreamOptions(), context);
    Post([this, stream] { table_.AddStranger(stream); });
    return stream->reactor();
  }

  // StreamOwner, on gRPC's threads
  void OnStreamHello(const std::shared_ptr<Stream>& stream, StreamHello hello) override {
    Post([this, stream, hello = std::move(hello)] { table_.HelloCame(stream, hello); });
  }

  void OnStreamRefused(Stream& stream, const Status& why) override {
    ++messages_refused_;
    LOG_WARN("refused a message from {}: {}", stream.remote().address, why.ToString());
  }

  void OnStreamDone(std::shared_ptr<Stream> stream, const Status& why) override {
    Post([this, stream = std::move(stream), why] { table_.StreamDone(stream, why); });
    const std::lock_guard lock(mutex_);
    if (--stream_count_ == 0) streams_gone_.notify_all();
  }

  // ConnectionHost, on the loop
  StreamHello MakeHello(Lane lane, std::uint64_t connection) const override {
    StreamHello hello;
    hello.job = options_.job;
    hello.id = options_.self;
    hello.incarnation = options_.incarnation;
    hello.lane = lane;
    hello.connection = connection;
    return hello;
  }

  void AwaitTurn(std::function<void(DialSlots::Slot)> dial) override {
    dial_slots_->Take([weak = weak_from_this(), dial = std::move(dial)](DialSlots::Slot slot) {
      if (const auto self = weak.lock()) self->Post([dial, slot] { dial(slot); });
    });
  }

  std::shared_ptr<Stream> Dial(const WorkerId& peer, const protocol::Address& address,
                               const StreamHello& hello) override {
    CountStream();
    protocol::Address at = address;
    if (at.scope == protocol::kRelayScope) at.dial = tunnels_->AddressOf(peer);
    return DialledStream::Start(shared_from_this(), MakeStreamOptions(),
                                MakeChannel(peer, at, hello.lane), hello);
  }

  Status CheckPeer(const Stream& stream, const StreamHello& hello) const override {
    RETURN_IF_ERROR(CheckCaller(stream.remote().uris, hello.id));
    return CheckHello(hello, options_.job);
  }

  void OnOpen(const std::shared_ptr<Connection>& connection) override {
    {
      const std::lock_guard lock(mutex_);
      routes_[connection->peer] = connection;
    }
    tuning_.Begin(connection->lane(Lane::kData).remote().address, connection->peer);
    TuneLater();
    gate_.Pass([&] { handler_->OnPeerUp(connection->peer); });
    for (const Lane lane : {Lane::kControl, Lane::kData}) {
      connection->lane(lane).StartReading(
          [this, connection, lane](Envelope envelope, std::size_t bytes) {
            Deliver(*connection, lane, std::move(envelope), bytes);
          });
    }
  }

  void OnClosing(const std::shared_ptr<Connection>& connection) override {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(connection->peer);
    if (found != routes_.end() && found->second == connection) routes_.erase(found);
  }

  void OnBroken(const std::shared_ptr<Connection>& connection) override {
    if (connection->muted) return;
    gate_.Pass([&] { handler_->OnPeerDown(connection->peer, connection->why); });
  }

  void After(Duration delay, std::function<void()> work) override {
    loop_->PostAt(Clock::now() + delay, WhileAlive(std::move(work)));
  }

 private:
  /// Whether a program with these URIs in its certificate is `id`, and still counts.
  Status CheckCaller(const std::vector<std::string>& uris, const WorkerId& id) const {
    RETURN_IF_ERROR(revocations_->Check(uris));
    return credentials_->AuthorizeId(uris, id);
  }

  /// The channel has a connection of its own.
  std::shared_ptr<grpc::Channel> MakeChannel(const WorkerId& peer, const protocol::Address& address,
                                             Lane lane) const {
    return grpc::CreateCustomChannel(address.dial, credentials_->ForDialling(peer),
                                     MakeChannelArguments(address, lane, Caps()));
  }

  /// Those whom others can dial are called by those whom nobody can.
  void LeaveUsable(std::vector<protocol::Address>& addresses) const {
    if (tunnels_) return;
    std::erase_if(addresses, [](const protocol::Address& address) {
      return address.scope == protocol::kRelayScope;
    });
  }

  void Post(std::function<void()> work) { loop_->Post(WhileAlive(std::move(work))); }

  /// A shared loop may outlive this object, but the work done on the loop for it may not.
  std::function<void()> WhileAlive(std::function<void()> work) {
    return [weak = weak_from_this(), work = std::move(work)] {
      if (const auto self = weak.lock()) work();
    };
  }

  void RefreshLater() {
    After(kRefreshPeriod, [this] {
      credentials_->Refresh();
      if (revocations_->Refresh()) {
        table_.CloseWhere(
            [this](const Stream& stream) { return revocations_->Check(stream.remote().uris); });
        if (relay_) relay_->CheckAgain();
      }
      RefreshLater();
    });
  }

  void TuneLater() {
    if (tuning_.connections() == 0 || std::exchange(tunes_, true)) return;
    After(ReceiveWindow::kLookPeriod, [this] {
      tunes_ = false;
      auto links = tuning_.Look(Clock::now());
      {
        const std::lock_guard lock(mutex_);
        links_ = std::move(links);
      }
      TuneLater();
    });
  }

  void Deliver(Connection& connection, Lane lane, Envelope envelope, std::size_t bytes) {
    if (connection.muted) {
      ++messages_refused_;
      return;
    }
    connection.used.store(true, std::memory_order_relaxed);
    ++messages_received_;
    bytes_received_ += bytes;
    gate_.Pass([&] { handler_->OnMessage(connection.peer, lane, std::move(envelope)); });
  }

  MessageCaps Caps() const { return {options_.header_bytes_max, options_.payload_bytes_max}; }

  StreamOptions MakeStreamOptions() const {
    return {{options_.control_window_bytes, options_.data_window_bytes},
            options_.piece_bytes,
            Caps(),
            buffers_};
  }

  void CountStream() {
    const std::lock_guard lock(mutex_);
    ++stream_count_;
  }

  std::shared_ptr<Connection> Route(const WorkerId& peer) const {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(peer);
    return found == routes_.end() ? nullptr : found->second;
  }

  /// There is something to send to a peer without a connection.
  void DialIfKnown(const WorkerId& peer) {
    std::vector<protocol::Address> addresses;
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(peer);
      // A connection that is kept is dialled already.
      if (known == known_.end() || known->second.kept || known->second.asked) return;
      known->second.asked = true;
      addresses = known->second.addresses;
    }
    Post([this, peer, addresses = std::move(addresses)] {
      {
        const std::lock_guard lock(mutex_);
        const auto known = known_.find(peer);
        if (known == known_.end()) return;
        known->second.asked = false;
      }
      table_.Need(peer, addresses);
    });
  }

  std::shared_ptr<Connection> TakeRoute(const WorkerId& peer) {
    const std::lock_guard lock(mutex_);
    const auto found = routes_.find(peer);
    if (found == routes_.end()) return nullptr;
    const auto connection = found->second;
    routes_.erase(found);
    return connection;
  }

  const GrpcOptions options_;
  EndpointHandler* const handler_;
  const std::unique_ptr<Credentials> credentials_;
  const std::shared_ptr<Revocations> revocations_;
  const std::shared_ptr<ReceiveBuffers> buffers_;
  std::vector<protocol::Address> addresses_;  // fixed once it listens
  Gate gate_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> messages_sent_ = 0, bytes_sent_ = 0;
  std::atomic<std::uint64_t> messages_received_ = 0, bytes_received_ = 0, messages_refused_ = 0;

  struct Known {
    std::vector<protocol::Address> addresses;
    bool kept = false;   ///< by Connect
    bool asked = false;  ///< the loop is about to dial
  };

  mutable std::mutex mutex_;
  std::condition_variable streams_gone_;
  std::unordered_map<WorkerId, Known> known_;                         // guarded
  int stream_count_ = 0;                                              // guarded
  std::unordered_map<WorkerId, std::shared_ptr<Connection>> routes_;  // guarded: open connections
  std::map<WorkerId, protocol::Link> links_;                          // guarded: as last seen

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<DialSlots> dial_slots_;
  ConnectionTable table_;             // of the loop
  TcpTuning tuning_;                  // of the loop
  bool tunes_ = false;                // of the loop: the next look is due
  std::unique_ptr<Relay> relay_;      // fixed once it listens
  std::unique_ptr<Tunnels> tunnels_;  // fixed once it listens
  std::unique_ptr<grpc::Server> server_;
};

GrpcEndpoint::GrpcEndpoint(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Result<std::unique_ptr<GrpcEndpoint>> GrpcEndpoint::Create(const GrpcOptions& options,
                                                           EndpointHandler* handler) {
  PrepareProcess();
  if (options.self.empty()) return InvalidArgument("an endpoint needs an id");
  ASSIGN_OR_RETURN(auto credentials, Credentials::Create(options));
  GrpcOptions filled = options;
  if (filled.incarnation == 0) {
    filled.incarnation =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::system_clock::now().time_since_epoch())
                                       .count());
  }
  auto core = std::make_shared<Core>(filled, handler, std::move(credentials));
  std::unique_ptr<GrpcEndpoint> endpoint(new GrpcEndpoint(core));
  RETURN_IF_ERROR(core->Listen());
  return endpoint;
}

GrpcEndpoint::~GrpcEndpoint() { core_->Stop(); }

void GrpcEndpoint::Connect(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  core_->Connect(peer, addresses);
}

void GrpcEndpoint::Know(const WorkerId& peer, const std::vector<protocol::Address>& addresses) {
  core_->Know(peer, addresses);
}

void GrpcEndpoint::Disconnect(const WorkerId& peer) { core_->Disconnect(peer); }

Status GrpcEndpoint::Send(const WorkerId& to, Lane lane, Envelope envelope) {
  return core_->Send(to, lane, std::move(envelope));
}

std::vector<protocol::Address> GrpcEndpoint::addresses() const { return core_->addresses(); }

Traffic GrpcEndpoint::traffic() const { return core_->traffic(); }

std::map<WorkerId, protocol::Link> GrpcEndpoint::links() const { return core_->links(); }

}  // namespace swarm::net
