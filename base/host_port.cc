#include "base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <charconv>

namespace swarm {
namespace {

bool IsSix(std::string_view host) { return host.find(':') != host.npos; }

std::optional<std::uint16_t> ReadPort(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stop != end) return std::nullopt;
  return port;
}

}  // namespace

std::string ToString(const HostPort& address) {
  const std::string host = IsSix(address.host) ? "[" + address.host + "]" : address.host;
  return host + ":" + std::to_string(address.port);
}

std::optional<HostPort> ReadHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return std::nullopt;
  const auto port = ReadPort(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool good = host.find_first_of("[]") == host.npos && bracketed == IsSix(host);
  if (!port || !good) return std::nullopt;
  return HostPort{std::string(host), *port};
}

std::string WithBrackets(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::string(text);
  const auto port = ReadPort(text.substr(colon + 1));
  const HostPort address{std::string(text.substr(0, colon)), port.value_or(0)};
  const bool is_six = IsSix(address.host) && ToSocketAddress(address);
  return port && is_six ? ToString(address) : std::string(text);
}

std::optional<SocketAddress> ToSocketAddress(const HostPort& address) {
  SocketAddress result;
  auto* const six = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET6, address.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    result.size = sizeof *six;
    return result;
  }
  auto* const four = reinterpret_cast<sockaddr_in*>(&result.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &four->sin_addr) != 1) return std::nullopt;
  four->sin_family = AF_INET;
  four->sin_port = htons(address.port);
  result.size = sizeof *four;
  return result;
}

bool HasIPv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace swarm
