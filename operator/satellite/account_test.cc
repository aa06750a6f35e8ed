// Who may become a satellite.
#include "operator/satellite/account.h"

#include <gmock/gmock.h>

namespace swarm::satellite {
namespace {

using std::chrono::seconds;

WallTime At(int second) { return WallTime(seconds(second)); }

Account OneToken() {
  return {.tokens = {{"5f", {"digest", "west", At(100)}}}, .revoked = {"west", "east"}};
}

TEST(AccountTest, ATokenLetsOneSatelliteInOnce) {
  Account account = OneToken();
  const auto cluster = UseToken("5f", "digest", At(99), &account);
  ASSERT_TRUE(cluster.ok()) << cluster.status().ToString();
  EXPECT_EQ(*cluster, "west");
  EXPECT_THAT(account.revoked, testing::ElementsAre("east")) << "a new token ends a revocation";
  EXPECT_EQ(UseToken("5f", "digest", At(99), &account).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(AccountTest, AForgedOrExpiredTokenChangesNothing) {
  Account account = OneToken();
  EXPECT_EQ(UseToken("5f", "other", At(1), &account).status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(UseToken("60", "digest", At(1), &account).status().code(),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(UseToken("5f", "digest", At(100), &account).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(account, OneToken());
}

TEST(AccountTest, ANewTokenMakesTheCertificatesBeforeItUseless) {
  Account account = OneToken();
  account.revoked.clear();
  EXPECT_EQ(*ClusterAt("west", account), "west") << "it has enrolled before there were numbers";
  ASSERT_TRUE(UseToken("5f", "digest", At(1), &account).ok());
  EXPECT_EQ(SeatOf(account, "west"), "west/1");
  EXPECT_EQ(ClusterAt("west", account).status().code(), StatusCode::kPermissionDenied);
  account.tokens = OneToken().tokens;
  ASSERT_TRUE(UseToken("5f", "digest", At(1), &account).ok());
  EXPECT_EQ(*ClusterAt("west/2", account), "west");
  for (const char* seat : {"west", "west/1", "west/3", "west/2/", "west/02", "/2", ""}) {
    EXPECT_EQ(ClusterAt(seat, account).status().code(), StatusCode::kPermissionDenied) << seat;
  }
}

TEST(AccountTest, WhatComesAndGoesIsNotedWithItsTime) {
  Account account;
  NoteConnections({{"west", ""}}, {}, true, At(10), &account);
  NoteConnections({{"west", ""}, {"east", ""}}, {}, true, At(20), &account);
  EXPECT_EQ(account.connections.at("west"), (Connection{true, At(10)})) << "it has not changed";
  EXPECT_EQ(account.connections.at("east"), (Connection{true, At(20)}));
  NoteConnections({{"east", ""}}, {"east"}, false, At(30), &account);
  EXPECT_EQ(account.connections.at("west"), (Connection{true, At(10)})) << "it may be coming";
  NoteConnections({{"east", ""}}, {}, true, At(40), &account);
  EXPECT_EQ(account.connections.at("west"), (Connection{false, At(40)}));
  NoteConnections({{"east", ""}, {"west", "gw.west.example:7444"}}, {}, false, At(50), &account);
  EXPECT_EQ(account.connections.at("west"), (Connection{true, At(50), "gw.west.example:7444"}));
  NoteConnections({{"east", "gw.east.example:7444"}}, {"east", "west"}, false, At(60), &account);
  EXPECT_EQ(account.connections.at("east"), (Connection{true, At(20), "gw.east.example:7444"}));
  EXPECT_EQ(account.connections.at("west"), (Connection{false, At(60), "gw.west.example:7444"}));
}

TEST(AccountTest, TheTextKeepsAll) {
  Account account = OneToken();
  account.enrolments = {{"west", 3}};
  account.connections = {{"west", {true, At(50)}}, {"east", {false, At(60)}}};
  const auto read = ParseAccount(ToText(account));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, account);
  const auto earlier = ParseAccount(R"({"revoked":["east"],"tokens":{}})");
  ASSERT_TRUE(earlier.ok()) << earlier.status().ToString();
  EXPECT_TRUE(earlier->enrolments.empty());
  EXPECT_TRUE(earlier->connections.empty());
  for (const char* text : {"", "{}", R"({"revoked":[],"tokens":{"a":1}})", R"({"revoked":7})"}) {
    EXPECT_EQ(ParseAccount(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace swarm::satellite
