#include "worker/net/grpc/tcp_tuning.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  /// So many bytes from the server to the client, all read.
  void Transfer(std::size_t bytes) {
    std::vector<char> part(1 << 16);
    for (std::size_t done = 0; done < bytes; done += part.size()) {
      ASSERT_EQ(send(server_, part.data(), part.size(), 0), static_cast<ssize_t>(part.size()));
      ASSERT_EQ(recv(client_, part.data(), part.size(), MSG_WAITALL),
                static_cast<ssize_t>(part.size()));
    }
  }
  void CloseClient() { close(std::exchange(client_, -1)); }
  /// How far the client's window may open.
  int client_window() const {
    int clamp = 0;
    socklen_t size = sizeof(clamp);
    EXPECT_EQ(getsockopt(client_, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, &size), 0);
    return clamp;
  }
  bool client_is_paced() const { return IsPaced(client_); }
  /// Bytes that the client's socket takes although it cannot send them yet; 0: any number.
  int client_unsent_bytes_max() const {
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    EXPECT_EQ(getsockopt(client_, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size), 0);
    return bytes;
  }
  bool server_is_paced() const { return IsPaced(server_); }

 private:
  static bool IsPaced(int fd) {
    std::uint64_t rate = 0;
    socklen_t size = sizeof(rate);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size), 0);
    return rate != UINT64_MAX;  // it is, unless a program has set a rate
  }
  const int family_;
  int listener_, client_, server_;
  std::uint16_t port_ = 0;
  bool up_ = false;
};

const protocol::WorkerId kPeer("peer");

TEST(TcpTuningTest, OnlyConnectionsWithThatPeerAreTuned) {
  for (const int family : {AF_INET, AF_INET6}) {
    const Connection one(family), other(family);
    if (!one.up() && family == AF_INET6) continue;  // a machine without IPv6
    ASSERT_TRUE(one.up() && other.up());
    TcpTuning tuning;
    EXPECT_EQ(tuning.Begin(one.peer(), kPeer, /*loopback=*/true), 1);
    EXPECT_EQ(tuning.Begin(one.peer(), kPeer, /*loopback=*/true), 1)
        << "again, which changes nothing";
    EXPECT_EQ(tuning.connections(), 1u);
    EXPECT_TRUE(one.client_is_paced());
    EXPECT_EQ(one.client_unsent_bytes_max(), 1 << 20);
    EXPECT_FALSE(one.server_is_paced()) << "its peer is the client";
    EXPECT_FALSE(other.client_is_paced());
    EXPECT_EQ(other.client_unsent_bytes_max(), 0);
  }
}

TEST(TcpTuningTest, LoopbackAndWhatIsNoAddressOfTcpAreLeftAlone) {
  const Connection connection(AF_INET);
  TcpTuning tuning;
  EXPECT_EQ(tuning.Begin(connection.peer(), kPeer), 0);
  EXPECT_FALSE(connection.client_is_paced());
  for (const char* peer : {"", "unix:/tmp/socket", "ipv4:nowhere:1", "ipv4:10.0.0.1",
                           "ipv6:::1:7000", "ipv4:10.0.0.1:70000", "ipv4:10.0.0.1:"}) {
    EXPECT_EQ(tuning.Begin(peer, kPeer, /*loopback=*/true), 0) << peer;
  }
}

TEST(TcpTuningTest, TheWindowFollowsWhatArrives) {
  Connection connection(AF_INET);
  ASSERT_TRUE(connection.up());
  TcpTuning tuning;
  ASSERT_EQ(tuning.Begin(connection.peer(), kPeer, /*loopback=*/true), 1);
  const int before = connection.client_window();
  Timepoint now{std::chrono::hours(1)};
  // The kernel measures the round trip. On a busy machine it may be long for a while, and then the
  // same bytes are less in one.
  const auto transfer = [&](int bytes) {
    const Timepoint deadline = Clock::now() + std::chrono::seconds(60);
    const auto waits = [&] {
      return connection.client_window() < bytes && Clock::now() < deadline;
    };
    for (int look = 0; look < 10 || waits(); ++look) {
      connection.Transfer(static_cast<std::size_t>(bytes));
      tuning.Look(now += ReceiveWindow::kLookPeriod);
    }
    return connection.client_window();
  };
  const int little = transfer(2 << 20), much = transfer(16 << 20);
  EXPECT_NE(little, before);
  EXPECT_GE(little, 2 << 20);
  EXPECT_GE(much, 16 << 20);
  EXPECT_LT(much, 1 << 30);
}

TEST(TcpTuningTest, AClosedConnectionIsForgottenThoughItsNumberIsUsedAgain) {
  Connection connection(AF_INET);
  ASSERT_TRUE(connection.up());
  TcpTuning tuning;
  ASSERT_EQ(tuning.Begin(connection.peer(), kPeer, /*loopback=*/true), 1);
  const Timepoint now{std::chrono::hours(1)};
  EXPECT_TRUE(tuning.Look(now).contains(kPeer));
  EXPECT_EQ(tuning.connections(), 1u);
  connection.CloseClient();
  const Connection another(AF_INET);
  EXPECT_TRUE(tuning.Look(now + ReceiveWindow::kLookPeriod).empty());
  EXPECT_EQ(tuning.connections(), 0u);
}

}  // namespace
}  // namespace swarm::net
