#include "worker/chaos/corruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/chaos/fault_rules.h"
#include "worker/chaos/holds.h"

namespace swarm::chaos {
namespace {

using testing::ElementsAre;

TEST(CorruptionTest, StandsBesideOtherRulesInOneFile) {
  const std::string text =
      "cut worker-1 *\nhold worker-2 backward 5\n" + FormatCorrupt({"worker-2", "worker-3"});
  EXPECT_THAT(*ParseCorrupt(text), ElementsAre("worker-2", "worker-3"));
  EXPECT_EQ(ParseFaultRules(text)->size(), 1u);
  EXPECT_EQ(ParseHolds(text)->size(), 1u);
}

TEST(CorruptionTest, ALineWithAnythingElseIsAnError) {
  EXPECT_FALSE(ParseCorrupt("corrupt\n").ok());
  EXPECT_FALSE(ParseCorrupt("corrupt worker-1 always\n").ok());
}

TEST(CorruptionTest, AFileThatIsNotThereCorruptsNobody) {
  EXPECT_FALSE(IsCorrupt("/nowhere/at/all", "worker-1"));
}

}  // namespace
}  // namespace swarm::chaos
