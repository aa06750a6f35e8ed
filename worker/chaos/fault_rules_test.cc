#include "worker/chaos/fault_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace swarm::chaos {
namespace {

TEST(FaultRulesTest, TextAndRulesAreTheSame) {
  const FaultRules rules = {{"a", "*", {}}, {"*", "b", std::chrono::milliseconds(250)}};
  EXPECT_EQ(FormatFaultRules(rules), "cut a *\ndelay * b 250\n");
  const auto parsed = ParseFaultRules(FormatFaultRules(rules));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, rules);
}

TEST(FaultRulesTest, TheStarDoesNotMatchObservers) {
  const FaultRules rules = {{"trainer", "*", {}}};
  EXPECT_TRUE(IsCut(rules, protocol::WorkerId("trainer"), protocol::WorkerId("worker-0")));
  EXPECT_FALSE(IsCut(rules, protocol::WorkerId("worker-0"), protocol::WorkerId("trainer")));
  EXPECT_FALSE(IsCut(rules, protocol::WorkerId("trainer"), protocol::WorkerId("observer/17")));
}

TEST(FaultRulesTest, DelaysAddUp) {
  const FaultRules rules = {{"a", "*", std::chrono::milliseconds(5)},
                            {"*", "b", std::chrono::milliseconds(7)}};
  EXPECT_EQ(DelayOf(rules, protocol::WorkerId("a"), protocol::WorkerId("b")),
            std::chrono::milliseconds(12));
}

TEST(FaultRulesTest, WrongLinesAreNamed) {
  for (const std::string text : {"cut a", "delay a b", "delay a b x", "cut a b c", "drop a b"}) {
    const auto rules = ParseFaultRules(text);
    EXPECT_EQ(rules.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(rules.status().message(), testing::HasSubstr(text));
  }
}

}  // namespace
}  // namespace swarm::chaos
