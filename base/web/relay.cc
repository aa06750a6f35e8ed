#include "base/web/relay.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace swarm::web {
namespace {

constexpr std::size_t kPairsMax = 64, kPartBytes = 65536;
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr int kLookMs = 1000, kBacklog = 200;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

/// One direction of a connection: what was read and is not written yet.
struct Direction {
  std::string bytes;
  bool ended = false;  // nothing more will be read

  /// Reads if there is room. False: the connection is broken.
  bool Read(int from) {
    if (ended || !bytes.empty()) return true;
    bytes.resize(kPartBytes);
    const ssize_t n = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    ended = n == 0;
    return n >= 0 || errno == EAGAIN || errno == EINTR;
  }
  /// False: the connection is broken.
  bool Write(int to) {
    if (bytes.empty()) return true;
    const ssize_t n = send(to, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    bytes.erase(0, static_cast<std::size_t>(n));
    return true;
  }
};

/// A connection of a reader, and that to the server.
struct Pair {
  Pair(int from, int to) : reader(from), server(to) {}

  const Fd reader, server;
  Direction request = {}, answer = {};
  Timepoint taken = Clock::now();  // when the reader last had all, or took a part

  static pollfd Wanted(int fd, const Direction& in, const Direction& out) {
    const int events =
        (in.bytes.empty() && !in.ended ? POLLIN : 0) | (out.bytes.empty() ? 0 : POLLOUT);
    return {events != 0 ? fd : -1, static_cast<short>(events), 0};
  }
  /// Moves what can be moved. False: the connection is over.
  bool Move(bool ready) {
    const std::size_t waiting = answer.bytes.size();
    const bool had_ended = request.ended;
    if (ready && !(request.Read(reader.get()) && request.Write(server.get()) &&
                   answer.Read(server.get()) && answer.Write(reader.get()))) {
      return false;
    }
    if (request.ended && !had_ended) shutdown(server.get(), SHUT_WR);
    if (answer.bytes.empty() || answer.bytes.size() != waiting) taken = Clock::now();
    return !(answer.ended && answer.bytes.empty()) && Clock::now() - taken < kPatience;
  }
};

}  // namespace

class Relay::Loop {
 public:
  Loop(int listener, SocketAddress target)
      : listener_(listener), wake_(eventfd(0, EFD_CLOEXEC)), target_(target) {}

  int listener() const { return listener_.get(); }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const bool accepts = pairs_.size() < kPairsMax && Clock::now() >= pause_;
      std::vector<pollfd> polled{{wake_.get(), POLLIN, 0},
                                 {accepts ? listener_.get() : -1, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        polled.push_back(Pair::Wanted(pair.reader.get(), pair.request, pair.answer));
        polled.push_back(Pair::Wanted(pair.server.get(), pair.answer, pair.request));
      }
      const int look = accepts && pairs_.empty() ? -1 : kLookMs;
      if (poll(polled.data(), polled.size(), look) < 0) continue;
      std::size_t at = 2;
      pairs_.remove_if([&](Pair& pair) {
        const bool ready = (polled[at].revents | polled[at + 1].revents) != 0;
        at += 2;
        return !pair.Move(ready);
      });
      if (polled[1].revents != 0) Accept();
    }
  }
  void Wake() {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }

 private:
  void Accept() {
    const int reader = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (reader < 0) {
      // Without descriptors, say. The connection still waits: the listener would wake the loop at
      // once, again and again.
      pause_ = Clock::now() + std::chrono::milliseconds(kLookMs);
      return;
    }
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const Pair& pair = pairs_.emplace_back(reader, server);
    const bool begun =
        connect(pair.server.get(), target_.get(), target_.size) == 0 || errno == EINPROGRESS;
    if (!begun) pairs_.pop_back();
  }

  const Fd listener_, wake_;
  const SocketAddress target_;
  std::list<Pair> pairs_;  // of the thread
  Timepoint pause_{};      // before which no connection is taken
};

Result<std::unique_ptr<Relay>> Relay::Start(const HostPort& listen, const HostPort& target) {
  const SocketAddress at = *ToSocketAddress(listen), to = *ToSocketAddress(target);
  auto loop =
      std::make_unique<Loop>(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), to);
  const int fd = loop->listener(), on = 1;
  sockaddr_in6 taken{};
  socklen_t size = sizeof taken;
  const bool listens = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0 &&
                       setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                       bind(fd, at.get(), at.size) == 0 && ::listen(fd, kBacklog) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&taken), &size) == 0;
  if (!listens) return Unavailable(std::strerror(errno));
  return std::unique_ptr<Relay>(new Relay(std::move(loop), {listen.host, ntohs(taken.sin6_port)}));
}

Relay::Relay(std::unique_ptr<Loop> loop, HostPort address)
    : address_(std::move(address)),
      loop_(std::move(loop)),
      thread_([this](const std::stop_token& stop) { loop_->Run(stop); }) {}

Relay::~Relay() {
  thread_.request_stop();
  loop_->Wake();
  thread_.join();
}

}  // namespace swarm::web
