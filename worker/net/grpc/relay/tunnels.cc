#include "worker/net/grpc/relay/tunnels.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "worker/net/grpc/relay/relay_hello.h"
#include "worker/net/grpc/status.h"

namespace swarm::net {
namespace {

namespace asio = boost::asio;
using Local = asio::local::stream_protocol;
using Error = boost::system::error_code;
using WorkGuard = asio::executor_work_guard<asio::io_context::executor_type>;

constexpr Duration kRetryMin = std::chrono::milliseconds(50);
constexpr Duration kRetryMax = std::chrono::seconds(3);
/// For a connection to the relay.
constexpr Duration kConnectLimit = std::chrono::seconds(5);

Local::endpoint SocketAt(const std::string& name) { return std::string(1, '\0') + name; }
std::string AddressAt(const std::string& name) { return "unix-abstract:" + name; }

/// No other socket of the machine is called so.
std::string NewName() {
  std::random_device device;
  return "swarmjob-" + std::to_string(::getpid()) + "-" + std::to_string(device());
}

/// One connection: a call to the relay, and a socket. The reactions of gRPC post to the thread of
/// `io`, on which all else runs.
class Tunnel final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                     public std::enable_shared_from_this<Tunnel> {
 public:
  struct Events {
    std::function<void()> on_connected;  ///< it has been connected for a while
    std::function<void()> on_called;     ///< the first bytes of a caller have come
    std::function<void(Tunnel*, const Status& why)> on_ended;  ///< the last event
  };

  Tunnel(asio::io_context& io, std::shared_ptr<grpc::Channel> channel, Events events)
      : io_(io),
        work_(io.get_executor()),
        events_(std::move(events)),
        channel_(std::move(channel)),
        stub_(channel_),
        socket_(io),
        connecting_(io) {}

  /// Calls the worker that `hello` names for the other end of `socket`.
  void Call(const RelayHello& hello, Local::socket socket) {
    socket_ = std::move(socket);
    connected_ = true;
    Start(hello);
  }

  /// Waits to be called, for what listens at `server`.
  void Wait(const RelayHello& hello, const Local::endpoint& server) {
    server_ = server;
    Start(hello);
  }

  void Close() {
    if (std::exchange(closed_, true)) return;
    Error ignored;
    socket_.close(ignored);
    connecting_.cancel();
    context_.TryCancel();
    RemoveHold();
  }

 private:
  void Start(const RelayHello& hello) {
    self_ = shared_from_this();
    stub_.PrepareBidiStreamingCall(&context_, kRelayMethod, {}, this);
    AddHold();  // operations begin outside of reactions
    StartRead(&came_);
    StartCall();
    const std::string text = EncodeRelayHello(hello);
    Send(grpc::Slice(text));
    connecting_.expires_after(kConnectLimit);
    connecting_.async_wait([this, self = shared_from_this()](const Error&) {
      if (closed_) return;
      if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) return Close();
      if (events_.on_connected) events_.on_connected();
    });
  }

  // Reactions.
  void OnReadDone(bool ok) override {
    asio::post(io_, [this, self = shared_from_this(), ok] { OnRead(ok); });
  }
  void OnWriteDone(bool ok) override {
    asio::post(io_, [this, self = shared_from_this(), ok] {
      writing_ = false;
      goes_.Clear();
      ok ? ReadSocket() : Close();
    });
  }
  void OnDone(const grpc::Status& status) override {
    // The last reference goes with the last channel, on which gRPC's own threads must not wait.
    asio::post(io_, [self = std::move(self_), why = FromGrpc(status)] {
      self->events_.on_ended(self.get(), why);
    });
  }

  void OnRead(bool ok) {
    if (closed_) return;
    if (!ok) return Close();  // all that came before is in the socket
    if (connected_) return WriteSocket();
    events_.on_called();
    socket_.async_connect(*server_, [this, self = shared_from_this()](const Error& error) {
      if (closed_) return;
      if (error) return Close();
      connected_ = true;
      WriteSocket();
      ReadSocket();
    });
  }

  void WriteSocket() {
    std::vector<grpc::Slice> slices;
    if (!came_.Dump(&slices).ok()) return Close();
    std::vector<asio::const_buffer> buffers;
    for (const grpc::Slice& slice : slices) buffers.emplace_back(slice.begin(), slice.size());
    asio::async_write(socket_, buffers,
                      [this, self = shared_from_this(), slices](const Error& error, std::size_t) {
                        if (closed_) return;
                        if (error) return Close();
                        came_.Clear();
                        StartRead(&came_);
                      });
  }

  void ReadSocket() {
    if (closed_ || !connected_ || writing_ || at_end_) return;
    writing_ = true;
    socket_.async_read_some(asio::buffer(chunk_), [this, self = shared_from_this()](
                                                      const Error& error, std::size_t count) {
      if (closed_) return;
      if (error == asio::error::eof) {
        at_end_ = true;
        return StartWritesDone();  // the relay ends the call when it has passed on the rest
      }
      error ? Close() : Send(grpc::Slice(chunk_.data(), count));
    });
  }

  void Send(const grpc::Slice& slice) {
    goes_ = grpc::ByteBuffer(&slice, 1);
    writing_ = true;
    StartWrite(&goes_);
  }

  asio::io_context& io_;
  const WorkGuard work_;
  const Events events_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::shared_ptr<Tunnel> self_;  // until the end of the call
  Local::socket socket_;
  asio::steady_timer connecting_;
  std::optional<Local::endpoint> server_;  // of a tunnel that waits
  grpc::ByteBuffer came_, goes_;
  std::array<char, kRelayedBytesMax> chunk_{};
  bool connected_ = false;  // the socket
  bool writing_ = false;    // to the relay, or reading what is to be written
  bool at_end_ = false;     // of the socket
  bool closed_ = false;
};

}  // namespace

/// Its fields belong to its thread, but for those that a mutex guards.
class Tunnels::Core {
 public:
  explicit Core(Options options)
      : options_(std::move(options)),
        work_(io_.get_executor()),
        name_(NewName()),
        retry_(io_),
        thread_([this] { io_.run(); }) {}

  ~Core() {
    asio::post(io_, [this] { Close(); });
    thread_.join();
  }

  const std::string& name() const { return name_; }

  void BeCallable() {
    asio::post(io_, [this] { Wait(); });
  }

  std::string AddressOf(const WorkerId& peer) {
    const std::lock_guard lock(mutex_);
    const auto [door, is_new] = doors_.try_emplace(peer);
    if (is_new) door->second = Open(peer);
    return AddressAt(door->second->name);
  }

 private:
  /// Where gRPC dials to reach a peer.
  struct Door {
    std::string name;
    Local::acceptor acceptor;
  };

  std::shared_ptr<Door> Open(const WorkerId& peer) {
    const std::string name = NewName();
    auto door = std::make_shared<Door>(Door{name, Local::acceptor(io_)});
    Error error;
    if (!error) door->acceptor.open(Local(), error);
    if (!error) door->acceptor.bind(SocketAt(name), error);
    if (!error) door->acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      LOG_WARN("cannot call {} by the relay: {}", peer.value, error.message());
    } else {
      asio::post(io_, [this, peer, door] { Accept(peer, door); });
    }
    return door;
  }

  void Accept(const WorkerId& peer, const std::shared_ptr<Door>& door) {
    if (closed_) return;
    door->acceptor.async_accept([this, peer, door](const Error& error, Local::socket socket) {
      if (error || closed_) return;
      Make({.on_connected = {},
            .on_called = {},
            .on_ended = [this](Tunnel* tunnel, const Status&) { tunnels_.erase(tunnel); }})
          ->Call({options_.job, options_.self, peer}, std::move(socket));
      Accept(peer, door);
    });
  }

  void Wait() {
    if (closed_) return;
    waiting_ = Make({.on_connected = [this] { failures_ = 0; },
                     .on_called =
                         [this] {
                           failures_ = 0;
                           waiting_ = nullptr;
                           Wait();
                         },
                     .on_ended =
                         [this](Tunnel* tunnel, const Status& why) {
                           tunnels_.erase(tunnel);
                           if (tunnel == waiting_) WaitAgain(why);
                         }});
    waiting_->Wait({options_.job, options_.self, WorkerId()}, SocketAt(name_));
  }

  void WaitAgain(const Status& why) {
    waiting_ = nullptr;
    if (closed_) return;
    // The relay may have begun anew, where it was: at first the same way is tried again.
    if (++failures_ > 1) ++way_;
    if (failures_ == 2) {
      LOG_WARN("cannot wait for calls at the relay: {}; trying again", why.message());
    }
    retry_.expires_after(std::min(kRetryMax, kRetryMin * (1 << std::min(failures_, 10))));
    retry_.async_wait([this](const Error& error) {
      if (!error) Wait();
    });
  }

  Tunnel* Make(Tunnel::Events events) {
    const auto tunnel =
        std::make_shared<Tunnel>(io_, options_.make_channel(way_), std::move(events));
    tunnels_[tunnel.get()] = tunnel;
    return tunnel.get();
  }

  void Close() {
    closed_ = true;
    retry_.cancel();
    {
      const std::lock_guard lock(mutex_);
      Error ignored;
      for (const auto& [peer, door] : doors_) door->acceptor.close(ignored);
    }
    for (const auto& [pointer, tunnel] : tunnels_) tunnel->Close();
    work_.reset();  // the thread ends with the last tunnel
  }

  const Options options_;
  asio::io_context io_{1};
  WorkGuard work_;
  const std::string name_;
  std::mutex mutex_;
  std::map<WorkerId, std::shared_ptr<Door>> doors_;  // guarded
  asio::steady_timer retry_;
  std::map<Tunnel*, std::shared_ptr<Tunnel>> tunnels_;
  Tunnel* waiting_ = nullptr;
  int failures_ = 0;  // to wait, in a row
  std::size_t way_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

Tunnels::Tunnels(Options options) : core_(std::make_unique<Core>(std::move(options))) {}

Tunnels::~Tunnels() = default;

std::string Tunnels::listen() const { return AddressAt(core_->name()); }

void Tunnels::BeCallable() { core_->BeCallable(); }

std::string Tunnels::AddressOf(const WorkerId& peer) { return core_->AddressOf(peer); }

}  // namespace swarm::net
