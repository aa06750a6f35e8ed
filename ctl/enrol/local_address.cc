#include "ctl/enrol/local_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>

namespace swarm::ctl {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};

using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Of host:port. Errors: kUnavailable.
Result<Addresses> Resolve(const std::string& dial, int socket_type) {
  const std::size_t colon = dial.rfind(':');
  std::string host = dial.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), dial.substr(colon + 1).c_str(), &hints, &found);
  Addresses addresses(found);
  if (error != 0) return Unavailable(host + " has no address: " + ::gai_strerror(error));
  return addresses;
}

/// How long a connection takes to be made; none: it is not.
std::optional<Duration> TimeToConnect(const addrinfo& to) {
  constexpr int kLimitMilliseconds = 1000;
  const int fd = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  const Timepoint begun = Clock::now();
  bool made = ::connect(fd, to.ai_addr, to.ai_addrlen) == 0;
  if (!made && errno == EINPROGRESS) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t size = sizeof error;
    made = ::poll(&ready, 1, kLimitMilliseconds) == 1 &&
           ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  const Duration taken = Clock::now() - begun;
  ::close(fd);
  return made ? std::optional(taken) : std::nullopt;
}

/// Empty, with errno: there is no way to `to`.
std::string OwnAddressTo(const addrinfo& to) {
  const int fd = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  const bool known = ::connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(),
                                   text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return known ? std::string(text.data()) : "";
}

}  // namespace

Result<std::string> LocalAddressTo(const std::string& dial) {
  ASSIGN_OR_RETURN(const Addresses addresses, Resolve(dial, SOCK_DGRAM));
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    if (std::string source = OwnAddressTo(*each); !source.empty()) return source;
  }
  return Unavailable("there is no way to " + dial + ": " + std::strerror(errno));
}

std::optional<Duration> RoundTripTo(const std::string& dial) {
  constexpr int kTries = 3;
  const Result<Addresses> addresses = Resolve(dial, SOCK_STREAM);
  if (!addresses.ok()) return std::nullopt;
  for (const addrinfo* each = addresses->get(); each != nullptr; each = each->ai_next) {
    std::optional<Duration> least = TimeToConnect(*each);
    for (int i = 1; least && i < kTries; ++i) {
      least = std::min(*least, TimeToConnect(*each).value_or(*least));
    }
    if (least) return least;
  }
  return std::nullopt;
}

std::string SourceOf(const std::string& address) {
  in6_addr six{};
  if (::inet_pton(AF_INET6, address.c_str(), &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six)) {
    return address;
  }
  std::fill(std::begin(six.s6_addr) + 8, std::end(six.s6_addr), 0);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &six, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

}  // namespace swarm::ctl
