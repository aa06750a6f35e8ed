#include "worker/enrol/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::enrol {
namespace {

const JoinToken kToken{"[fd00::7]:7400", std::string(64, 'a'), "5f2c", std::string(32, '0')};

TEST(JoinTokenTest, IsOneWordThatIsReadAgain) {
  const std::string text = ToText(kToken);
  EXPECT_THAT(text, testing::MatchesRegex("sj1_[A-Za-z0-9+/=]+_[0-9a-f]+"));
  const auto token = ParseJoinToken(text);
  ASSERT_TRUE(token.ok()) << token.status().ToString();
  EXPECT_EQ(*token, kToken);
}

TEST(JoinTokenTest, APieceOfOneOrAnythingElseIsRefusedWithAdvice) {
  const std::string text = ToText(kToken);
  std::string changed = text;
  changed[20] = changed[20] == 'A' ? 'B' : 'A';
  for (const std::string& each :
       {std::string(), std::string("sj1_"), std::string("sj1__00000000"), text.substr(1),
        text.substr(0, text.size() - 1), changed, text + "0", std::string(5000, 'x')}) {
    const auto token = ParseJoinToken(each);
    EXPECT_EQ(token.status().code(), StatusCode::kInvalidArgument) << each;
    EXPECT_THAT(token.status().message(), testing::HasSubstr("swarmctl token create"));
  }
}

}  // namespace
}  // namespace swarm::enrol
