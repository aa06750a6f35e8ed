#include "worker/protocol/balance/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>

namespace swarm::protocol {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Stages = std::vector<StageLoad>;

ReplicaLoad Worker(const std::string& name, double rate = 1) {
  return {WorkerId(name), rate, true};
}

ReplicaLoad Joiner(const std::string& name, double rate = 1) {
  return {WorkerId(name), rate, false};
}

std::vector<BalanceOrder> AtChange(const Stages& stages, const BalanceModel& model = {}) {
  return Balance(BalancePolicy::kEvent, BalanceTrigger::kChange, stages, model);
}

std::vector<BalanceOrder> AtRound(const Stages& stages) {
  return Balance(BalancePolicy::kPeriodic, BalanceTrigger::kRound, stages, {});
}

Stages After(const std::vector<BalanceOrder>& orders, Stages stages) {
  for (const BalanceOrder& order : orders) Apply(order, &stages);
  return stages;
}

TEST(PlaceJoinerTest, ANewcomerGoesWhereTheThroughputIsLeast) {
  EXPECT_EQ(PlaceJoiner({{1, {Worker("a"), Worker("b")}}, {1, {Worker("c")}}}), StageIndex(1));
}

TEST(PlaceJoinerTest, WorkersThatAreStillLoadingCount) {
  EXPECT_EQ(PlaceJoiner({{1, {Worker("a"), Worker("b")}}, {1, {Joiner("c"), Joiner("d", 2)}}}),
            StageIndex(0));
}

TEST(BalanceTest, AWorkerMovesToTheStageThatLimitsTheJob) {
  const Stages stages = {{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}};
  const auto orders = AtChange(stages);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("a"));
  EXPECT_EQ(orders[0].from, StageIndex(0));
  EXPECT_EQ(orders[0].to, StageIndex(1));
  EXPECT_EQ(orders[0].reason, "stage 1 would limit the job at 1/s, stage 0 has 3/s");
}

TEST(BalanceTest, AWorkerThatKeepsPodsApartGoesToAnEmptyStageOnly) {
  Stages stages = {{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}};
  stages[0].replicas[0].keeps_pods_apart = true;
  ASSERT_THAT(AtChange(stages), SizeIs(1));
  EXPECT_EQ(AtChange(stages)[0].worker, WorkerId("b"));
  for (ReplicaLoad& replica : stages[0].replicas) replica.keeps_pods_apart = true;
  EXPECT_THAT(AtChange(stages), IsEmpty());
  stages[1].replicas.clear();
  ASSERT_THAT(AtChange(stages), SizeIs(1));
  EXPECT_EQ(AtChange(stages)[0].worker, WorkerId("a"));
}

TEST(BalanceTest, AMoverIsAJoinerOfItsNewStage) {
  Stages stages = {{1, {Worker("a"), Worker("b")}}, {2, {Worker("c")}}};
  Apply({WorkerId("a"), StageIndex(0), StageIndex(1), ""}, &stages);
  ASSERT_THAT(stages[1].replicas, SizeIs(2));
  EXPECT_EQ(stages[1].replicas[1].worker, WorkerId("a"));
  EXPECT_FALSE(stages[1].replicas[1].ready);
  EXPECT_DOUBLE_EQ(stages[1].replicas[1].rate, 0.5);
}

TEST(BalanceTest, AReadyWorkerMovesBeforeOneThatIsStillLoading) {
  const auto orders = AtChange({{1, {Joiner("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("b"));
}

TEST(BalanceTest, NoWorkerMovesWhereANewcomerIsOnTheWay) {
  EXPECT_THAT(
      AtChange({{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d"), Joiner("e")}}}),
      IsEmpty());
}

TEST(BalanceTest, OneMoveThatCannotHelpAloneIsNotMade) {
  // Stages 1 and 2 are short of one each; stage 0 can give only one.
  EXPECT_THAT(
      AtChange(
          {{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}, {1, {Worker("e")}}}),
      IsEmpty());
}

TEST(BalanceTest, TwoMovesThatHelpTogetherAreMade) {
  const Stages stages = {{1, {Worker("a"), Worker("b"), Worker("c"), Worker("d")}},
                         {1, {Worker("e")}},
                         {1, {Worker("f")}}};
  const auto orders = AtChange(stages);
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_DOUBLE_EQ(PredictedThroughput(After(orders, stages)), 2);
}

TEST(BalanceTest, NoMoveForAGainThatWillNotLast) {
  const Stages stages = {{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}};
  BalanceModel model{.state_load_seconds = 600};
  EXPECT_THAT(AtChange(stages, model), SizeIs(1));
  model.changes_per_worker_second = 1.0 / 60;
  EXPECT_THAT(AtChange(stages, model), IsEmpty());
}

TEST(BalanceTest, UnlikeStagesAndWorkersAreComparedByTheirRates) {
  // Stage 1 is three times the work. The fast worker of stage 0 would be enough there, and the
  // slow ones enough at stage 0.
  const Stages stages = {{1, {Worker("fast", 6), Worker("slow1", 1.5), Worker("slow2", 1.5)}},
                         {3, {Worker("d", 1)}}};
  const auto orders = AtChange(stages);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("fast"));
  EXPECT_DOUBLE_EQ(PredictedThroughput(After(orders, stages)), 3);
}

TEST(BalanceTest, AStageWithoutReplicasGetsOneAtOnce) {
  const Stages stages = {{1, {Worker("a"), Worker("b")}}, {1, {}}, {1, {Worker("c")}}};
  const auto orders = FillEmptied(stages);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].from, StageIndex(0));
  EXPECT_EQ(orders[0].to, StageIndex(1));
  EXPECT_THAT(orders[0].reason, HasSubstr("stage 1 has no replica"));
  EXPECT_THAT(FillEmptied(After(orders, stages)), IsEmpty()) << "one is on the way";
  EXPECT_THAT(AtChange(stages), SizeIs(1)) << "the rule does that, too";
}

TEST(BalanceTest, TheLastReadyReplicaOfAStageStays) {
  EXPECT_THAT(FillEmptied({{1, {Worker("a")}}, {1, {}}}), IsEmpty());
  EXPECT_THAT(FillEmptied({{1, {Worker("a"), Joiner("b")}}, {1, {}}}), SizeIs(1))
      << "but a worker that is only joining there may be redirected";
}

TEST(PeriodicRuleTest, OneWorkerARoundGoesFromTheLeastToTheMostLoadedStage) {
  const Stages stages = {{1, {Worker("a"), Worker("b"), Worker("c"), Worker("d")}},
                         {1, {Worker("e")}},
                         {1, {Worker("f"), Worker("g")}}};
  const auto orders = AtRound(stages);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("a"));
  EXPECT_EQ(orders[0].to, StageIndex(1));
  EXPECT_THAT(Balance(BalancePolicy::kPeriodic, BalanceTrigger::kChange, stages, {}), IsEmpty());
  EXPECT_THAT(Balance(BalancePolicy::kNone, BalanceTrigger::kRound, stages, {}), IsEmpty());
}

TEST(PeriodicRuleTest, TwoStagesDoNotExchangePlaces) {
  EXPECT_THAT(AtRound({{1, {Worker("a"), Worker("b")}}, {1, {Worker("c")}}}), IsEmpty());
}

/// Up to six unlike stages with workers that are ready or joining.
Stages RandomStages(bool alike) {
  Stages stages(*rc::gen::inRange<std::size_t>(1, 7));
  int name = 0;
  for (StageLoad& stage : stages) {
    if (!alike) stage.cost = *rc::gen::inRange(1, 5);
    const int replicas = *rc::gen::inRange(0, 6);
    for (int r = 0; r < replicas; ++r) {
      const double speed = alike ? 1 : *rc::gen::inRange(1, 9);
      stage.replicas.push_back({WorkerId("w" + std::to_string(name++)), speed / stage.cost,
                                *rc::gen::inRange(0, 5) > 0});
    }
  }
  return stages;
}

BalanceModel RandomModel() {
  return {.state_load_seconds = *rc::gen::element(0.0, 10.0, 60.0),
          .changes_per_worker_second = *rc::gen::element(0.0, 1e-4, 1e-2),
          .donor_drag = *rc::gen::element(0.0, 0.05)};
}

/// For a failing case: "cost 1 [a 1/s, b 0.5/s joining]" and the orders.
std::string Describe(const Stages& stages, const std::vector<BalanceOrder>& orders) {
  std::ostringstream text;
  for (const StageLoad& stage : stages) {
    text << "cost " << stage.cost << " [";
    for (const ReplicaLoad& replica : stage.replicas) {
      text << " " << replica.worker.value << " " << replica.rate << "/s"
           << (replica.ready ? "," : " joining,");
    }
    text << " ]\n";
  }
  for (const BalanceOrder& order : orders) {
    text << order.worker.value << " " << order.from.value << "->" << order.to.value << ": "
         << order.reason << "\n";
  }
  return text.str();
}

TEST(BalancePropertyTest, NoOrderEmptiesAStageAndNoneLowersThePrediction) {
  const bool holds = rc::check([] {
    const Stages before = RandomStages(*rc::gen::arbitrary<bool>());
    const BalancePolicy policy = *rc::gen::element(BalancePolicy::kEvent, BalancePolicy::kPeriodic);
    Stages stages = before;
    const auto orders = Balance(policy, BalanceTrigger::kRound, before, RandomModel());
    RC_LOG() << Describe(before, orders);
    for (const BalanceOrder& order : orders) {
      const Stages previous = stages;
      Apply(order, &stages);
      for (std::size_t s = 0; s < stages.size(); ++s) {
        RC_ASSERT(balancing::ReadyCount(stages[s]) > 0 || balancing::ReadyCount(previous[s]) == 0);
      }
    }
    RC_ASSERT(PredictedThroughput(stages) >= PredictedThroughput(before) * (1 - 1e-9));
  });
  EXPECT_TRUE(holds);
}

TEST(BalancePropertyTest, WithoutEventsNoWorkerMovesTwice) {
  const bool holds = rc::check([] {
    const Stages before = RandomStages(*rc::gen::arbitrary<bool>());
    const BalanceModel model = RandomModel();
    const auto first = AtChange(before, model);
    const Stages after = After(first, before);
    const auto second = AtChange(after, model);
    RC_LOG() << Describe(before, first) << Describe(after, second);
    RC_ASSERT(second.empty());
  });
  EXPECT_TRUE(holds);
}

TEST(BalancePropertyTest, AlikeWorkersEndAtTheOptimum) {
  // Equal stages and workers, all given time: as many a stage as there can be.
  const bool holds = rc::check([] {
    Stages stages = RandomStages(/*alike=*/true);
    const BalanceModel model{.state_load_seconds = 10};
    std::size_t workers = 0;
    const auto all_ready = [&] {
      workers = 0;
      for (StageLoad& stage : stages) {
        for (ReplicaLoad& replica : stage.replicas) replica.ready = true;
        workers += stage.replicas.size();
      }
    };
    all_ready();
    for (int round = 0; round < 10; ++round) {
      const auto orders = AtChange(stages, model);
      RC_LOG() << Describe(stages, orders);
      stages = After(orders, stages);
      all_ready();
    }
    RC_ASSERT(Throughput(stages) >= static_cast<double>(workers / stages.size()) * (1 - 1e-9));
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace swarm::protocol
