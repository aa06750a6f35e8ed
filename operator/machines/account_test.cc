#include "operator/machines/account.h"

#include <gtest/gtest.h>

namespace swarm::machines {
namespace {

using std::chrono::hours;

const WallTime kNow{hours(24 * 365 * 60)};

Account AccountUnderTest() {
  return {{{"ab12", {"digest", "friends", kNow + hours(1), 2}}}, {3, 7}};
}

StatusCode CodeOf(const Account& account, const std::string& name, const std::string& digest,
                  WallTime now = kNow) {
  return FindToken(account, name, digest, now).status().code();
}

TEST(JoinAccountTest, TheTextSaysAllOfIt) {
  const auto read = ParseAccount(ToText(AccountUnderTest()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, AccountUnderTest());
  for (const std::string text :
       {"", "{}", R"({"tokens":{"a":{}},"revoked":[]})", R"({"tokens":{},"revoked":["a"]})"}) {
    EXPECT_EQ(ParseAccount(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(JoinAccountTest, AnIdSaysOfWhichJobTheTokenIs) {
  EXPECT_EQ(*ParseTokenId(ToText(TokenId{"uid-7", "ab12"})), (TokenId{"uid-7", "ab12"}));
  for (const std::string text : {"", "ab12", ".ab12", "uid-7."}) {
    EXPECT_EQ(ParseTokenId(text).status().code(), StatusCode::kUnauthenticated) << text;
  }
}

TEST(JoinAccountTest, ATokenIsGoodForItsUsesAndItsTime) {
  Account account = AccountUnderTest();
  EXPECT_EQ(FindToken(account, "ab12", "digest", kNow)->pool, "friends");
  EXPECT_TRUE(UseToken("ab12", "digest", kNow, &account).ok());
  EXPECT_EQ(CodeOf(account, "ab12", "digest", kNow + hours(1)), StatusCode::kPermissionDenied);
  EXPECT_TRUE(UseToken("ab12", "digest", kNow, &account).ok());
  EXPECT_EQ(UseToken("ab12", "digest", kNow, &account).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(account.tokens["ab12"].uses_left, 0u);
}

TEST(JoinAccountTest, WhichPartIsWrongIsNotTold) {
  const Account account = AccountUnderTest();
  const auto wrong_name = FindToken(account, "cd34", "digest", kNow);
  const auto wrong_secret = FindToken(account, "ab12", "guess", kNow);
  EXPECT_EQ(wrong_name.status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(wrong_name.status().message(), wrong_secret.status().message());
}

}  // namespace
}  // namespace swarm::machines
