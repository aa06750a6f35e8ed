#include "worker/protocol/replica/retention.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

TaskKey KeyOf(std::uint64_t step, std::uint64_t microbatch) {
  return {Generation(0), Step(step), Microbatch(microbatch), StageIndex(1), {Term(1), 1}};
}

TEST(RetentionTest, OutputAndGradientOfATaskAreKeptApart) {
  Retention retention(100);
  Actions actions;
  retention.Keep(KeyOf(0, 0), {.key = KeyOf(0, 0)}, /*gradient=*/false, 40, actions);
  ASSERT_NE(retention.FindOutput(KeyOf(0, 0)), nullptr);
  EXPECT_EQ(retention.FindOutput(KeyOf(0, 0))->key, KeyOf(0, 0));
  EXPECT_EQ(retention.FindGradient(KeyOf(0, 0)), nullptr);
  EXPECT_EQ(retention.bytes(), 40u);
  EXPECT_TRUE(actions.empty());
}

TEST(RetentionTest, TheOldestIsReleasedWhenThereIsNoRoom) {
  Retention retention(100);
  Actions actions;
  retention.Keep(KeyOf(0, 0), {}, false, 40, actions);
  retention.Keep(KeyOf(0, 1), {}, false, 40, actions);
  retention.Keep(KeyOf(0, 0), {}, true, 40, actions);
  ASSERT_EQ(actions.size(), 1u);
  const auto& released = std::get<action::ReleaseRetained>(actions[0]);
  EXPECT_EQ(released.key, KeyOf(0, 0));
  EXPECT_FALSE(released.gradient);
  EXPECT_EQ(retention.FindOutput(KeyOf(0, 0)), nullptr);
  EXPECT_NE(retention.FindGradient(KeyOf(0, 0)), nullptr);
  EXPECT_EQ(retention.bytes(), 80u);
}

TEST(RetentionTest, ACommittedStepAndThoseBeforeItAreForgotten) {
  Retention retention(100);
  Actions actions;
  retention.Keep(KeyOf(0, 0), {}, false, 10, actions);
  retention.Keep(KeyOf(1, 0), {}, true, 20, actions);
  retention.Keep(KeyOf(2, 0), {}, false, 30, actions);
  retention.Forget(Step(1));
  EXPECT_EQ(retention.FindOutput(KeyOf(0, 0)), nullptr);
  EXPECT_EQ(retention.FindGradient(KeyOf(1, 0)), nullptr);
  EXPECT_NE(retention.FindOutput(KeyOf(2, 0)), nullptr);
  EXPECT_EQ(retention.bytes(), 30u);
  EXPECT_TRUE(actions.empty());
}

}  // namespace
}  // namespace swarm::protocol
