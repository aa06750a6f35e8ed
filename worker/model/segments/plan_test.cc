#include "worker/model/segments/plan.h"

#include <gtest/gtest.h>

namespace swarm::model {
namespace {

constexpr Slice kWhole{0, 6, true, true};

SwapLimits LimitsOf(std::uint64_t parameters) {
  return {
      .memory = parameters * 2 * 12 / 3 * 4, .parameter_bytes = 12, .task_bytes = 10, .tasks = 8};
}

TEST(SwapPlanTest, TwoSegmentsFit) {
  const StageSizes sizes{20, {10, 10, 10, 10, 10, 10}, 25};
  const auto plan = CutIntoSegments(kWhole, sizes, LimitsOf(25));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const std::vector<Slice> expected{{0, 0, true, false},
                                    {0, 2, false, false},
                                    {2, 2, false, false},
                                    {4, 2, false, false},
                                    {6, 0, false, true}};
  ASSERT_EQ(plan->segments.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(plan->segments[i].first, expected[i].first) << i;
    EXPECT_EQ(plan->segments[i].count, expected[i].count) << i;
    EXPECT_EQ(plan->segments[i].embedding, expected[i].embedding) << i;
    EXPECT_EQ(plan->segments[i].head, expected[i].head) << i;
  }
  EXPECT_EQ(plan->largest, 25u);
}

TEST(SwapPlanTest, MoreMemoryMakesSegmentsLonger) {
  const StageSizes sizes{50, {10, 10, 10, 10, 10, 10}, 55};
  const auto plan = CutIntoSegments(kWhole, sizes, LimitsOf(1000));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->segments.size(), 3u) << "embedding, layers, head";
}

TEST(SwapPlanTest, WhereStepsOverlapSegmentsAreShorterForOneThatIsUpdated) {
  const StageSizes sizes{10, {10, 10, 10, 10, 10, 10}, 10};
  SwapLimits limits = LimitsOf(50);
  limits.task_bytes = 1;
  const auto cut = [&](const SwapUse& use) { return *CutForUse(kWhole, sizes, limits, use); };
  const SwapPlan alone = cut({});
  EXPECT_FALSE(alone.updates_beside);
  EXPECT_EQ(alone.largest, 50u);
  const SwapPlan beside = cut({.overlaps = true});
  EXPECT_TRUE(beside.updates_beside);
  EXPECT_EQ(beside.tasks, alone.tasks);
  // One computes, one comes, and one is updated with its gradient.
  EXPECT_LE(beside.largest * (3 * 12 + 4), limits.memory / 4 * 3);
  EXPECT_GT((beside.largest + 10) * (3 * 12 + 4), limits.memory / 4 * 3);
  EXPECT_FALSE(cut({.exact = true, .overlaps = true}).updates_beside);
  // Beside a device the memory of segments is not the host's.
  const SwapPlan device = cut({.on_device = true});
  EXPECT_TRUE(device.leaves_beside);
  EXPECT_FALSE(device.updates_beside);
  const SwapPlan both = cut({.on_device = true, .overlaps = true});
  EXPECT_TRUE(both.updates_beside);
  EXPECT_EQ(both.largest, device.largest);
}

TEST(SwapPlanTest, AnUpdateBesideTasksCostsNoPassOfThem) {
  const StageSizes sizes{0, {10, 10, 10, 10}, 0};
  const Slice slice{0, 4, false, false};
  SwapLimits limits = LimitsOf(20);
  limits.task_bytes = limits.memory / 4 / 2 / 8;  // two segments, eight tasks
  const auto plan = CutForUse(slice, sizes, limits, {.overlaps = true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->tasks, 8u);
  EXPECT_EQ(plan->segments.size(), 2u);
  EXPECT_FALSE(plan->updates_beside) << "four segments leave memory for the inputs of four tasks";
}

TEST(SwapPlanTest, TooLittleMemoryIsRefusedWithWhatWouldDo) {
  const StageSizes sizes{0, {1000000, 3000000}, 0};
  const Slice slice{2, 2, false, false};
  const auto plan = CutIntoSegments(slice, sizes, LimitsOf(2999999));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(plan.status().message().find(" 92 MiB"), std::string::npos) << plan.status().message();
  EXPECT_TRUE(CutIntoSegments(slice, sizes, LimitsOf(3000000)).ok());
}

TEST(SwapPlanTest, KeptInputsDecideHowManyTasksPassTogether) {
  const StageSizes sizes{0, {10, 10}, 0};
  SwapLimits limits = LimitsOf(10);
  limits.task_bytes = limits.memory / 4 / 2 / 3;  // two segments, three tasks
  const auto three = CutIntoSegments({0, 2, false, false}, sizes, limits);
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(three->segments.size(), 2u);
  EXPECT_EQ(three->tasks, 3u);
  limits.task_bytes = limits.memory;
  EXPECT_EQ(CutIntoSegments({0, 2, false, false}, sizes, limits)->tasks, 1u);
  limits.task_bytes = 1;
  EXPECT_EQ(CutIntoSegments({0, 2, false, false}, sizes, limits)->tasks, 8u) << "as wanted";
}

TEST(SwapPlanTest, InputsWaitInTheTierWhereThatCostsLessThanMorePasses) {
  const StageSizes sizes{0, {1000, 1000}, 0};
  SwapLimits limits = LimitsOf(1000);
  const auto cut = [&] { return *CutIntoSegments({0, 2, false, false}, sizes, limits); };
  // Four of eight fit: one more pass moves 2000 * 24 bytes, and inputs 8 * 5 times their size.
  limits.pass_bytes = PassBytes(api::Accumulation::kFloat, /*adapters=*/false);
  limits.task_bytes = limits.memory / 4 / 2 / 4;
  ASSERT_EQ(limits.task_bytes, 1000u);
  EXPECT_TRUE(cut().inputs_in_tier);
  EXPECT_EQ(cut().tasks, 8u);
  limits.pass_bytes = PassBytes(api::Accumulation::kExact, /*adapters=*/false);
  EXPECT_FALSE(cut().inputs_in_tier) << "a pass costs a third";
  EXPECT_EQ(cut().tasks, 4u);
  // Where all fit, or not even those of the tasks at hand.
  limits.pass_bytes = PassBytes(api::Accumulation::kFloat, /*adapters=*/false);
  limits.task_bytes = 10;
  EXPECT_FALSE(cut().inputs_in_tier);
  EXPECT_EQ(cut().tasks, 8u);
  limits.pass_bytes = 1'000'000;
  limits.task_bytes = limits.memory / 4 / 7;
  EXPECT_FALSE(cut().inputs_in_tier);
}

}  // namespace
}  // namespace swarm::model
