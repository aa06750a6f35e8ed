#include "worker/protocol/routing/flow/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

namespace swarm::protocol {
namespace {

using testing::IsEmpty;

constexpr double kExact = 1e-4;

double ShareOf(const Shares& shares, std::size_t stage, const Place& from, const Place& to) {
  const auto found = shares.at(stage).find({from, to});
  return found == shares[stage].end() ? 0 : found->second;
}

/// Two places with a worker of each stage; links within a place are quick, between them slow.
FlowGraph TwoPlaces(double quick, double slow) {
  const Passage worker{1, 1}, near{100, quick}, far{100, slow};
  FlowGraph graph;
  graph.stages = {{{"eu", worker}, {"us", worker}}, {{"eu", worker}, {"us", worker}}};
  graph.cuts = {
      {{{"eu", "eu"}, near}, {{"us", "us"}, near}, {{"eu", "us"}, far}, {{"us", "eu"}, far}}};
  return graph;
}

TEST(FlowTest, MicrobatchesStayWhereLinksAreQuick) {
  const Flow flow = SolveFlow(TwoPlaces(0.01, 1.0));
  EXPECT_NEAR(flow.rate, 2, kExact) << "both workers of each stage are busy all the time";
  EXPECT_NEAR(ShareOf(flow.shares, 1, "eu", "eu"), 0.5, kExact);
  EXPECT_NEAR(ShareOf(flow.shares, 1, "us", "us"), 0.5, kExact);
}

TEST(FlowTest, TheRateComesFirst) {
  FlowGraph graph = TwoPlaces(0.01, 1.0);
  graph.stages[0]["eu"] = {3, 1.0 / 3};
  graph.stages[1]["us"] = {3, 1.0 / 3};
  const Flow flow = SolveFlow(graph);
  EXPECT_NEAR(flow.rate, 4, kExact);
  EXPECT_NEAR(ShareOf(flow.shares, 1, "eu", "eu"), 0.25, kExact);
  EXPECT_NEAR(ShareOf(flow.shares, 1, "eu", "us"), 0.5, kExact) << "for want of a quick way";
  EXPECT_NEAR(ShareOf(flow.shares, 1, "us", "us"), 0.25, kExact);
}

TEST(FlowTest, ALinkTakesNoMoreThanItCan) {
  FlowGraph graph = TwoPlaces(0.01, 0.01);
  graph.cuts[0][{"eu", "eu"}].rate = 0.25;
  const Flow flow = SolveFlow(graph);
  EXPECT_NEAR(flow.rate, 2, kExact);
  EXPECT_LE(ShareOf(flow.shares, 1, "eu", "eu") * flow.rate, 0.25 + kExact);
  EXPECT_NEAR(JudgeShares(graph, PlainShares(graph)).rate, 1, kExact)
      << "a quarter of all would take that link";
}

TEST(FlowTest, AWorkerThatIsNearlyUsedUpIsWaitedFor) {
  // One worker would be enough, and is a little nearer.
  FlowGraph graph;
  graph.stages = {{{"a", {1, 1}}}, {{"near", {1, 1}}, {"far", {1, 1}}}};
  graph.cuts = {{{{"a", "near"}, {100, 0.1}}, {{"a", "far"}, {100, 0.2}}}};
  const Flow flow = SolveFlow(graph);
  EXPECT_NEAR(ShareOf(flow.shares, 1, "a", "near"), 0.75, kExact);
  EXPECT_NEAR(ShareOf(flow.shares, 1, "a", "far"), 0.25, kExact);
}

TEST(FlowTest, WhereThereIsNoWayThereAreNoShares) {
  FlowGraph graph = TwoPlaces(0.01, 1.0);
  graph.cuts[0].clear();
  EXPECT_EQ(SolveFlow(graph).rate, 0);
  EXPECT_THAT(ChooseShares(graph, {}), IsEmpty());
}

TEST(ChooseSharesTest, LinksThatAreAlikeLeaveDrawsPlain) {
  EXPECT_THAT(ChooseShares(TwoPlaces(0.1, 0.11), {}), IsEmpty());
}

TEST(ChooseSharesTest, AWayThatIsSomewhatShorterIsNoReasonForShares) {
  EXPECT_THAT(ChooseShares(TwoPlaces(0.01, 1.0), {}), IsEmpty());
}

TEST(ChooseSharesTest, SharesStayUntilOthersAreMuchBetter) {
  const Shares shares = ChooseShares(TwoPlaces(0.01, 10), {});
  ASSERT_FALSE(shares.empty());
  FlowGraph changed = TwoPlaces(0.01, 10);
  changed.stages[0]["eu"] = changed.stages[1]["us"] = {1.05, 1 / 1.05};
  EXPECT_EQ(ChooseShares(changed, shares), shares) << "the best flow is another, by little";
  EXPECT_NE(SolveFlow(changed).shares, shares);
  for (auto& stage : changed.stages) stage["eu"] = {3, 1.0 / 3};
  EXPECT_NEAR(ShareOf(ChooseShares(changed, shares), 1, "eu", "eu"), 0.75, kExact);
}

TEST(ChooseSharesTest, SharesOfAWayThatIsGoneAreReplaced) {
  FlowGraph graph = TwoPlaces(0.01, 10);
  const Shares shares = ChooseShares(graph, {});
  graph.cuts[0].erase({"eu", "eu"});
  const Shares others = ChooseShares(graph, shares);
  EXPECT_EQ(ShareOf(others, 1, "eu", "eu"), 0);
  EXPECT_EQ(JudgeShares(graph, shares).rate, 0);
  EXPECT_NEAR(JudgeShares(graph, others).rate, 2, kExact);
}

RC_GTEST_PROP(FlowTest, NoSharesOfAnyKindBringAHigherRate, (unsigned seed)) {
  std::mt19937 random(seed);
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  FlowGraph graph;
  const std::size_t stages = 1 + random() % 4;
  for (std::size_t s = 0; s < stages; ++s) {
    auto& stage = graph.stages.emplace_back();
    for (std::size_t i = 0; i <= random() % 5; ++i) {
      const double rate = draw(0.5, 8);
      stage[std::to_string(i)] = {rate, 1 / rate};
    }
    if (s == 0) continue;
    auto& cut = graph.cuts.emplace_back();
    for (const auto& [from, x] : graph.stages[s - 1]) {
      for (const auto& [to, y] : stage) cut[{from, to}] = {draw(0.1, 4), draw(0.001, 0.5)};
    }
  }
  const Flow best = SolveFlow(graph);
  RC_ASSERT(best.rate > 0);
  RC_ASSERT(JudgeShares(graph, PlainShares(graph)).rate <= best.rate * (1 + kExact));
  // Shares that someone else might choose.
  Shares other = PlainShares(graph);
  std::map<Place, double> before{{"", 1}};
  for (auto& ways : other) {
    std::map<Place, double> weights, here;
    for (const auto& [way, share] : ways) weights[way.second] = draw(0.1, 1);
    double sum = 0;
    for (const auto& [place, weight] : weights) sum += weight;
    for (auto& [way, share] : ways) {
      share = before[way.first] * weights[way.second] / sum;
      here[way.second] += share;
    }
    before = std::move(here);
  }
  RC_ASSERT(JudgeShares(graph, other).rate <= best.rate * (1 + kExact));
}

}  // namespace
}  // namespace swarm::protocol
