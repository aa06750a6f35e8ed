#include "base/chained_line.h"

#include <gtest/gtest.h>

namespace swarm {
namespace {

TEST(ChainedLineTest, ALineHoldsBehindTheOneItWasWrittenBehind) {
  const std::string first = ChainLine(R"({"step":0})", "");
  const std::string second = ChainLine(R"({"step":1})", ChainDigest(first));
  EXPECT_TRUE(first.starts_with(R"({"step":0,"digest":")")) << first;
  EXPECT_TRUE(ChainHolds(first, ""));
  EXPECT_TRUE(ChainHolds(second, ChainDigest(first)));
  EXPECT_FALSE(ChainHolds(second, "")) << "the first was removed";
  EXPECT_NE(ChainDigest(ChainLine(R"({"step":1})", "")), ChainDigest(second));
}

TEST(ChainedLineTest, AnAlteredLineDoesNotHold) {
  std::string line = ChainLine(R"({"worker":"worker-0"})", "");
  line[line.find('0')] = '1';
  EXPECT_FALSE(ChainHolds(line, ""));
}

TEST(ChainedLineTest, LinesOfOtherWritersHaveNoDigest) {
  EXPECT_EQ(ChainDigest(""), "");
  EXPECT_EQ(ChainDigest(R"({"step":0})"), "");
  EXPECT_EQ(ChainDigest(R"({"step":0,"digest":"12"})"), "");
}

}  // namespace
}  // namespace swarm
