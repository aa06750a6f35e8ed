#include "worker/net/grpc/pacing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace swarm::net {
namespace {

/// A TCP connection of this process with itself over `family`, for a test.
class Connection {
 public:
  explicit Connection(int family) : family_(family) {
    listener_ = socket(family, SOCK_STREAM, 0);
    client_ = socket(family, SOCK_STREAM, 0);
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    }
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    up_ = bind(listener_, raw, size) == 0 && listen(listener_, 1) == 0 &&
          getsockname(listener_, raw, &size) == 0 && connect(client_, raw, size) == 0;
    port_ = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                    : reinterpret_cast<sockaddr_in6&>(address).sin6_port);
    server_ = up_ ? accept(listener_, nullptr, nullptr) : -1;
  }
  ~Connection() {
    for (const int fd : {listener_, client_, server_}) close(fd);
  }
  bool up() const { return up_; }
  /// Of the end that was connected to, as gRPC writes it.
  std::string peer() const {
    return (family_ == AF_INET ? "ipv4:127.0.0.1:" : "ipv6:%5B::1%5D:") + std::to_string(port_);
  }
  bool client_is_paced() const { return IsPaced(client_); }
  bool server_is_paced() const { return IsPaced(server_); }

 private:
  static bool IsPaced(int fd) {
    std::uint64_t rate = 0;
    socklen_t size = sizeof(rate);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size), 0);
    return rate != UINT64_MAX;  // which it is as long as nobody has asked for anything
  }
  const int family_;
  int listener_, client_, server_;
  std::uint16_t port_ = 0;
  bool up_ = false;
};

TEST(PacingTest, OnlyConnectionsWithThatPeerArePaced) {
  for (const int family : {AF_INET, AF_INET6}) {
    const Connection one(family), other(family);
    if (!one.up() && family == AF_INET6) continue;  // a machine without IPv6
    ASSERT_TRUE(one.up() && other.up());
    EXPECT_EQ(PaceConnectionsWith(one.peer(), /*loopback=*/true), 1);
    EXPECT_TRUE(one.client_is_paced());
    EXPECT_FALSE(one.server_is_paced()) << "its peer is the client";
    EXPECT_FALSE(other.client_is_paced());
  }
}

TEST(PacingTest, LoopbackAndWhatIsNoAddressOfTcpAreLeftAlone) {
  const Connection connection(AF_INET);
  EXPECT_EQ(PaceConnectionsWith(connection.peer()), 0);
  EXPECT_FALSE(connection.client_is_paced());
  for (const char* peer : {"", "unix:/tmp/socket", "ipv4:nowhere:1", "ipv4:10.0.0.1",
                           "ipv6:::1:7000", "ipv4:10.0.0.1:70000", "ipv4:10.0.0.1:"}) {
    EXPECT_EQ(PaceConnectionsWith(peer, /*loopback=*/true), 0) << peer;
  }
}

}  // namespace
}  // namespace swarm::net
