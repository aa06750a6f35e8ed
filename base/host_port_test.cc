#include "base/host_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace swarm {
namespace {

TEST(HostPortTest, AddressesOfBothFamiliesAndNamesAreReadAndWritten) {
  const std::pair<const char*, HostPort> pairs[] = {
      {"10.0.0.1:7000", {"10.0.0.1", 7000}},
      {"[::1]:80", {"::1", 80}},
      {"[fd00::7]:0", {"fd00::7", 0}},
      {"tiny-trainer.team.svc:7000", {"tiny-trainer.team.svc", 7000}},
      {"[::]:65535", {"::", 65535}}};
  for (const auto& [text, address] : pairs) {
    EXPECT_EQ(ReadHostPort(text), address) << text;
    EXPECT_EQ(ToString(address), text);
  }
}

TEST(HostPortTest, WhatCouldMeanTwoThingsIsNotRead) {
  for (const char* text : {"", "host", ":80", "host:", "host:80s", "host:65536", "host:-1",
                           "::1:80", "fd00::7", "[::1]", "[::1]80", "[::1:80", "::1]:80", "[]:80",
                           "[10.0.0.1]:80", "[[::1]]:80", "a[b]:80"}) {
    EXPECT_EQ(ReadHostPort(text), std::nullopt) << text;
  }
}

TEST(HostPortTest, AnAddressOfIPv6GetsItsBrackets) {
  EXPECT_EQ(WithBrackets("fd00::7:7000"), "[fd00::7]:7000");
  EXPECT_EQ(WithBrackets("::1:7000"), "[::1]:7000");
  for (const char* text : {"10.0.0.1:7000", "[fd00::7]:7000", "host:7000", "$(POD_IP):7000", "",
                           "host", "fd00::7:port", ":7000"}) {
    EXPECT_EQ(WithBrackets(text), text);
  }
}

TEST(HostPortTest, OnlyAddressesBecomeAddressesOfSockets) {
  const auto six = ToSocketAddress({"::1", 80});
  ASSERT_TRUE(six);
  EXPECT_EQ(six->storage.ss_family, AF_INET6);
  EXPECT_EQ(six->size, sizeof(sockaddr_in6));
  const auto four = ToSocketAddress({"127.0.0.1", 80});
  ASSERT_TRUE(four);
  EXPECT_EQ(four->storage.ss_family, AF_INET);
  EXPECT_EQ(reinterpret_cast<const sockaddr_in*>(four->get())->sin_port, htons(80));
  EXPECT_FALSE(ToSocketAddress({"localhost", 80}));
  EXPECT_FALSE(ToSocketAddress({"[::1]", 80}));
}

}  // namespace
}  // namespace swarm
