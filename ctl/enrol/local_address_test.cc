#include "ctl/enrol/local_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace swarm::ctl {
namespace {

TEST(LocalAddressTest, IsThatFromWhichPacketsGo) {
  const auto address = LocalAddressTo("127.0.0.1:7400");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_EQ(*address, "127.0.0.1");
}

/// A socket of this machine; its address. Connections wait there until the test ends.
class Port {
 public:
  explicit Port(bool listens) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    SWARM_CHECK(::bind(fd_, any, size) == 0 && (!listens || ::listen(fd_, 8) == 0) &&
                    ::getsockname(fd_, any, &size) == 0,
                "a port");
    dial_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Port() { ::close(fd_); }
  const std::string& dial() const { return dial_; }

 private:
  int fd_;
  std::string dial_;
};

TEST(LocalAddressTest, ARoundTripIsTheTimeOfAConnectionWhereSomethingListens) {
  const auto time = RoundTripTo(Port(/*listens=*/true).dial());
  ASSERT_TRUE(time.has_value());
  EXPECT_GT(ToSeconds(*time), 0);
  EXPECT_EQ(RoundTripTo(Port(/*listens=*/false).dial()), std::nullopt);
  EXPECT_EQ(RoundTripTo("[no address]:7400"), std::nullopt);
}

TEST(LocalAddressTest, ACustomersAddressesOfIPv6AreOneSource) {
  EXPECT_EQ(SourceOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(SourceOf("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_NE(SourceOf("2001:db8:1:3::9"), "2001:db8:1:2::/64");
  EXPECT_EQ(SourceOf("203.0.113.5"), "203.0.113.5");
  EXPECT_EQ(SourceOf("::ffff:203.0.113.5"), "::ffff:203.0.113.5");
  EXPECT_EQ(SourceOf("no address"), "no address");
}

TEST(LocalAddressTest, AHostWithoutAddressIsNamed) {
  const auto address = LocalAddressTo("[no address]:7400");
  EXPECT_EQ(address.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(address.status().message(), testing::HasSubstr("no address has no address"));
}

}  // namespace
}  // namespace swarm::ctl
