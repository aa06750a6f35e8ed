#include "ctl/simulate/trace_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace swarm::ctl {
namespace {

TEST(TraceReplayTest, AnUndisturbedSwarmIsAtItsOptimum) {
  const auto trace = ParseTrace("0,add,a\n0,add,b\n0,add,c\n0,add,d\n100000,remove,a\n");
  ASSERT_TRUE(trace.ok());
  const ReplayResult result = Replay(*trace, {});
  EXPECT_DOUBLE_EQ(result.efficiency, 1);
  EXPECT_DOUBLE_EQ(result.attainable_efficiency, 1);
  EXPECT_EQ(result.seconds, 100);
  EXPECT_EQ(result.moves, 0);
  EXPECT_EQ(result.departures, 1);
  EXPECT_EQ(result.joins, 0) << "no worker joined a running job";
}

TEST(TraceReplayTest, ANewcomerCountsWhenItHasLoaded) {
  // From 100 s to 200 s there are four for two stages; the newcomer needs 30 s of them.
  const auto trace = ParseTrace("0,add,a\n0,add,b\n0,add,c\n100000,add,d\n200000,remove,d\n");
  ASSERT_TRUE(trace.ok());
  ReplayOptions options;
  options.model.balance.state_load_seconds = 30;
  const ReplayResult result = Replay(*trace, options);
  EXPECT_DOUBLE_EQ(result.attainable_efficiency, (100 + 30 + 70 * 2) / 300.0);
  EXPECT_DOUBLE_EQ(result.efficiency, result.attainable_efficiency);
  EXPECT_EQ(result.joins, 1);
}

/// A fleet of at most 24 in which workers depart or join every other minute, drawn from a key.
Trace RandomTrace(std::uint64_t key) {
  Rng rng(key);
  std::string text;
  std::vector<int> living;
  int names = 0;
  const auto add = [&](int milliseconds) {
    living.push_back(names);
    text += std::to_string(milliseconds) + ",add,n" + std::to_string(names++) + "\n";
  };
  for (int i = 0; i < 18; ++i) add(0);
  for (int minute = 1; minute < 400; ++minute) {
    const int milliseconds = minute * 60000;
    if (rng.Below(2) == 0) continue;
    const bool depart = living.size() >= 24 || (living.size() > 9 && rng.Below(2) == 0);
    const std::uint64_t count = 1 + rng.Below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!depart) {
        add(milliseconds);
        continue;
      }
      const auto victim = living.begin() + static_cast<std::ptrdiff_t>(rng.Below(living.size()));
      text += std::to_string(milliseconds) + ",remove,n" + std::to_string(*victim) + "\n";
      living.erase(victim);
    }
  }
  const auto trace = ParseTrace(text);
  EXPECT_TRUE(trace.ok()) << trace.status().ToString();
  return *trace;
}

TEST(TraceReplayTest, CopiesBeatMovesThatBeatPeriodsThatBeatNothing) {
  for (const std::uint64_t key : {1, 2, 3}) {
    const Trace trace = RandomTrace(key);
    ReplayOptions options;
    options.stage_costs.assign(4, 1);
    const auto efficiency = [&](ReplayPolicy policy) {
      options.policy = policy;
      return Replay(trace, options).efficiency;
    };
    const double moves = efficiency(ReplayPolicy::kMoves);
    const double periodic = efficiency(ReplayPolicy::kPeriodic);
    EXPECT_GT(efficiency(ReplayPolicy::kCopies), moves);
    EXPECT_GT(moves, periodic);
    EXPECT_GT(periodic, efficiency(ReplayPolicy::kNone));
  }
}

TEST(TraceReplayTest, NoPolicyDoesBetterThanMovesThatCostNothing) {
  for (const std::uint64_t key : {4, 5, 6}) {
    const Trace trace = RandomTrace(key);
    for (const double load : {0.0, 10.0, 60.0}) {
      ReplayOptions options;
      options.stage_costs = {1, 1, 2, 1};
      options.model.balance.state_load_seconds = load;
      for (const ReplayPolicy policy : {ReplayPolicy::kMoves, ReplayPolicy::kCopies}) {
        options.policy = policy;
        const ReplayResult result = Replay(trace, options);
        EXPECT_LE(result.efficiency, result.attainable_efficiency + 1e-9) << "load " << load;
        EXPECT_GT(result.efficiency, 0.9);
      }
    }
  }
}

TEST(TraceReplayTest, TheSameSeedGivesTheSameRun) {
  const Trace trace = RandomTrace(7);
  ReplayOptions options;
  options.policy = ReplayPolicy::kCopies;
  options.stage_costs.assign(5, 1);
  const ReplayResult one = Replay(trace, options);
  const ReplayResult two = Replay(trace, options);
  EXPECT_EQ(one.efficiency, two.efficiency);
  EXPECT_EQ(one.moves, two.moves);
}

TEST(TraceReplayTest, TimeWithoutEnoughWorkersDoesNotCount) {
  const auto trace = ParseTrace("0,add,a\n50000,add,b\n50000,add,c\n50000,add,d\n100000,add,e\n");
  ASSERT_TRUE(trace.ok());
  ReplayOptions options;
  options.model.balance.state_load_seconds = 10;
  const ReplayResult result = Replay(*trace, options);
  EXPECT_DOUBLE_EQ(result.stage_empty_share, 10 / 50.0);
  EXPECT_DOUBLE_EQ(result.efficiency, 40 / 50.0);
}

}  // namespace
}  // namespace swarm::ctl
