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

TEST(AccountTest, TheTextKeepsAll) {
  const auto read = ParseAccount(ToText(OneToken()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, OneToken());
  for (const char* text : {"", "{}", R"({"revoked":[],"tokens":{"a":1}})", R"({"revoked":7})"}) {
    EXPECT_EQ(ParseAccount(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace swarm::satellite
