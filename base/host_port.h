// Addresses as text, host:port: joins and splits them, with brackets around the addresses of IPv6.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace swarm {

struct HostPort {
  std::string host;  ///< a name or an address, without brackets
  std::uint16_t port = 0;
  bool operator==(const HostPort&) const = default;
};

/// "host:port"; "[host]:port" if the host is an IPv6 address.
std::string ToString(const HostPort& address);

/// Reads what ToString writes. None: it has another form, such as an IPv6 address without brackets,
/// in which the port could be the address's last part.
std::optional<HostPort> ReadHostPort(std::string_view text);

/// The text with brackets, if it is an IPv6 address and a port without, as "$(POD_IP):7000" becomes
/// in a pod. The last colon separates the port. Other texts stay as they are.
std::string WithBrackets(std::string_view text);

/// For calls of the system. None: the host is an address of neither family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
std::optional<SocketAddress> ToSocketAddress(const HostPort& address);

/// Whether this machine has IPv6. Asks the system.
bool HasIPv6();

}  // namespace swarm
