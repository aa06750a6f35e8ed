#include "base/metrics/get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>

namespace swarm::metrics {
namespace {

constexpr std::size_t kBytesMax = 16u << 20;
constexpr std::size_t kPartBytes = 65536;

class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  /// Until the socket can be read or written; false: the deadline came first.
  bool Await(short event, Timepoint deadline) const {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    pollfd waited{fd_, event, 0};
    return ::poll(&waited, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000))) > 0;
  }

 private:
  const int fd_;
};

Result<sockaddr_in> Resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const bool good = colon != address.npos &&
                    std::from_chars(address.data() + colon + 1, end, port).ptr == end &&
                    ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr) == 1;
  if (!good) return InvalidArgument("'" + address + "' is no IPv4 address:port");
  peer.sin_port = htons(port);
  return peer;
}

/// The code of "HTTP/1.1 200 OK...", and what is behind the empty line.
Result<Answer> Parse(const std::string& answer, const std::string& address) {
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  const std::size_t head = answer.find("\r\n\r\n");
  Answer parsed;
  if (!answer.starts_with(kBegin) || head == answer.npos ||
      std::from_chars(answer.data() + kBegin.size(), answer.data() + head, parsed.code).ec !=
          std::errc()) {
    return Unavailable(address + " does not answer");
  }
  parsed.text = answer.substr(head + 4);
  return parsed;
}

}  // namespace

Result<Answer> GetPage(const std::string& address, const std::string& path, Timepoint deadline) {
  ASSIGN_OR_RETURN(const sockaddr_in peer, Resolve(address));
  const Socket socket;
  const Status silent = Unavailable(address + " does not answer");
  const auto* generic = reinterpret_cast<const sockaddr*>(&peer);
  if (::connect(socket.fd(), generic, sizeof peer) != 0 && errno != EINPROGRESS) return silent;
  if (!socket.Await(POLLOUT, deadline)) return silent;
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  // It is short: the socket's buffer takes it at once.
  const ssize_t sent = ::send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) return silent;
  std::string answer;
  // Not an array on the stack: a page of a launcher asks on a thread of the web server
  // (web/web_server.h).
  std::string part(kPartBytes, '\0');
  while (answer.size() <= kBytesMax) {
    if (!socket.Await(POLLIN, deadline)) return silent;
    const ssize_t n = ::recv(socket.fd(), part.data(), part.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return silent;
    if (n == 0) return Parse(answer, address);
    answer.append(part, 0, static_cast<std::size_t>(n));
  }
  return silent;
}

}  // namespace swarm::metrics
