#include "ctl/enrol/local_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

TEST(LocalAddressTest, IsThatFromWhichPacketsGo) {
  const auto address = LocalAddressTo("127.0.0.1:7400");
  ASSERT_TRUE(address.ok()) << address.status().ToString();
  EXPECT_EQ(*address, "127.0.0.1");
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
