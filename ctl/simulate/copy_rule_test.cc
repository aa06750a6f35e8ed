#include "ctl/simulate/copy_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>
#include <string_view>

namespace swarm::ctl {
namespace {

using protocol::ReplicaLoad;
using protocol::StageIndex;
using protocol::StageLoad;
using protocol::WorkerId;
using protocol::balancing::ReadyCount;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ReplicaLoad Worker(const std::string& name, double rate = 1) {
  return {WorkerId(name), rate, true};
}

/// The swarm, in which `worker` has a complete copy of `stage`.
CopySwarm With(CopySwarm swarm, const std::string& worker, std::uint64_t stage) {
  swarm.copies[WorkerId(worker)].push_back({StageIndex(stage), 0});
  return swarm;
}

std::vector<CopyOrder> Only(CopyAction action, std::vector<CopyOrder> orders) {
  std::erase_if(orders, [&](const CopyOrder& order) { return order.action != action; });
  return orders;
}

CopySwarm After(const std::vector<CopyOrder>& orders, CopySwarm swarm,
                const CopyModel& model = {}) {
  for (const CopyOrder& order : orders) Apply(order, &swarm, model);
  return swarm;
}

TEST(CopyRuleTest, AWorkerWithTheStateSwitchesAtOnceToTheStageWithADeparture) {
  const CopySwarm swarm =
      With({{{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}}, {}}, "b", 1);
  const auto orders = Only(CopyAction::kSwitch, DecideWithCopies(swarm, {}));
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("b"));
  EXPECT_EQ(orders[0].to, StageIndex(1));
  EXPECT_THAT(orders[0].reason, HasSubstr("stage 1 has 1/s, stage 0 3/s"));
  EXPECT_TRUE(After(orders, swarm).Holds(WorkerId("b"), 0)) << "its old state is a copy now";
}

TEST(CopyRuleTest, TwoSwitchesInAChainDoWhatOneCannot) {
  // No worker of stage 0, which has one to spare, has the state of stage 2; one of stage 1 has.
  CopySwarm swarm{{{1, {Worker("a"), Worker("b"), Worker("c")}},
                   {1, {Worker("d"), Worker("e")}},
                   {1, {Worker("f")}}},
                  {}};
  swarm = With(With(std::move(swarm), "b", 1), "e", 2);
  const auto orders = Only(CopyAction::kSwitch, DecideWithCopies(swarm, {}));
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].worker, WorkerId("b")) << "the far end gives first";
  EXPECT_EQ(orders[1].worker, WorkerId("e"));
}

TEST(CopyRuleTest, AMoverServesItsOldStageUntilTheNewStateHasCome) {
  const CopySwarm swarm{{{1, {Worker("a"), Worker("b"), Worker("c")}}, {1, {Worker("d")}}}, {}};
  const auto orders = DecideWithCopies(swarm, {});
  ASSERT_THAT(orders, SizeIs(Ge(1U)));
  EXPECT_EQ(orders[0].action, CopyAction::kFetch);
  EXPECT_EQ(orders[0].to, StageIndex(1));
  EXPECT_THAT(orders[0].reason, HasSubstr("would limit the job"));
  EXPECT_EQ(ReadyCount(After(orders, swarm).stages[0]), 3U);
}

TEST(CopyRuleTest, CopiesAreKeptByWorkersThatCanSpareTheEffort) {
  const CopySwarm swarm{{{1, {Worker("a"), Worker("b"), Worker("c")}},
                         {1, {Worker("d"), Worker("e")}},
                         {1, {Worker("f"), Worker("g")}}},
                        {}};
  const auto orders = DecideWithCopies(swarm, {});
  ASSERT_FALSE(orders.empty());
  for (const CopyOrder& order : orders) {
    EXPECT_EQ(order.action, CopyAction::kFetch);
    EXPECT_EQ(order.from, StageIndex(0));
    EXPECT_THAT(order.reason, HasSubstr("cannot bear"));
  }
  EXPECT_DOUBLE_EQ(Throughput(After(orders, swarm), {}), 2) << "their upkeep costs nothing";
}

TEST(CopyRuleTest, ACopyGoesWhenItsWorkerLimitsTheJob) {
  const CopySwarm swarm =
      With({{{1, {Worker("a"), Worker("b")}}, {1, {Worker("c"), Worker("d")}}}, {}}, "a", 1);
  EXPECT_DOUBLE_EQ(Throughput(swarm, {}), 1.95) << "the drag of the copy";
  const auto orders = DecideWithCopies(swarm, {});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].action, CopyAction::kDrop);
  EXPECT_EQ(orders[0].worker, WorkerId("a"));
}

TEST(CopyRuleTest, AStageWithoutReplicasIsFilledByASwitchWhereAWorkerHasItsState) {
  const CopySwarm swarm{{{1, {Worker("a"), Worker("b")}}, {1, {}}, {1, {Worker("c")}}}, {}};
  const auto moved = FillEmptied(swarm, {});
  ASSERT_THAT(moved, SizeIs(1));
  EXPECT_EQ(moved[0].action, CopyAction::kMove);
  EXPECT_EQ(moved[0].worker, WorkerId("a"));
  const auto switched = FillEmptied(With(swarm, "b", 1), {});
  ASSERT_THAT(switched, SizeIs(1));
  EXPECT_EQ(switched[0].action, CopyAction::kSwitch);
  EXPECT_EQ(switched[0].worker, WorkerId("b"));
}

TEST(CopyRuleTest, AStageWithoutReplicasWaitsForTheWorkerThatFetchesItsState) {
  CopySwarm swarm{{{1, {Worker("a"), Worker("b")}}, {1, {}}}, {}};
  swarm.copies[WorkerId("b")].push_back({StageIndex(1), 30});
  EXPECT_THAT(FillEmptied(swarm, {}), IsEmpty());
}

/// Up to six unlike stages with workers that are ready, joining, fetching, or have copies.
CopySwarm RandomSwarm(bool alike, bool with_copies = true) {
  CopySwarm swarm;
  const auto count = *rc::gen::inRange<std::size_t>(1, 7);
  swarm.stages.resize(count);
  int name = 0;
  for (std::size_t s = 0; s < count; ++s) {
    StageLoad& stage = swarm.stages[s];
    if (!alike) stage.cost = *rc::gen::inRange(1, 5);
    const int replicas = *rc::gen::inRange(0, 6);
    for (int r = 0; r < replicas; ++r) {
      const double speed = alike ? 1 : *rc::gen::inRange(1, 9);
      const WorkerId id("w" + std::to_string(name++));
      stage.replicas.push_back({id, speed / stage.cost, *rc::gen::inRange(0, 5) > 0});
      const auto copy = *rc::gen::inRange<std::size_t>(0, 2 * count);
      if (with_copies && stage.replicas.back().ready && copy < count && copy != s) {
        swarm.copies[id].push_back({StageIndex(copy), *rc::gen::element(0.0, 30.0)});
      }
    }
  }
  return swarm;
}

CopyModel RandomModel() {
  return {.balance = {.state_load_seconds = *rc::gen::element(0.0, 10.0, 60.0),
                      .changes_per_worker_second = *rc::gen::element(0.0, 1e-4, 1e-2)},
          .copy_drag = *rc::gen::element(0.0, 0.05),
          .copies_per_worker = *rc::gen::inRange(0, 3)};
}

std::string_view ActionName(CopyAction action) {
  switch (action) {
    case CopyAction::kSwitch:
      return "Switch";
    case CopyAction::kFetch:
      return "Fetch";
    case CopyAction::kDrop:
      return "Drop";
    case CopyAction::kMove:
      return "Move";
  }
  return "?";
}

/// For a failing case: "cost 1 [a 1/s, b 0.5/s joining, holds 1 in 30 s]" and the orders.
std::string Describe(const CopySwarm& swarm, const std::vector<CopyOrder>& orders) {
  std::ostringstream text;
  for (const StageLoad& stage : swarm.stages) {
    text << "cost " << stage.cost << " [";
    for (const ReplicaLoad& replica : stage.replicas) {
      text << " " << replica.worker.value << " " << replica.rate << "/s"
           << (replica.ready ? "" : " joining");
      for (const Copy& copy : swarm.Of(replica.worker)) {
        text << " holds " << copy.stage.value << " in " << copy.seconds_left << " s";
      }
      text << ",";
    }
    text << " ]\n";
  }
  for (const CopyOrder& order : orders) {
    text << ActionName(order.action) << " " << order.worker.value << " " << order.from.value << "->"
         << order.to.value << ": " << order.reason << "\n";
  }
  return text.str();
}

TEST(CopyRulePropertyTest, NoOrderEmptiesAStageAndNoneLowersThePrediction) {
  const bool holds = rc::check([] {
    const CopySwarm before = RandomSwarm(*rc::gen::arbitrary<bool>());
    const CopyModel model = RandomModel();
    CopySwarm swarm = before;
    const auto orders = DecideWithCopies(before, model);
    RC_LOG() << Describe(before, orders);
    for (const CopyOrder& order : orders) {
      const CopySwarm previous = swarm;
      Apply(order, &swarm, model);
      for (std::size_t s = 0; s < swarm.stages.size(); ++s) {
        RC_ASSERT(ReadyCount(swarm.stages[s]) > 0 || ReadyCount(previous.stages[s]) == 0);
      }
    }
    // The upkeep of the copy that a switch leaves behind is dropped within the same list.
    RC_ASSERT(PredictedThroughput(swarm, model) >= PredictedThroughput(before, model) * (1 - 1e-9));
  });
  EXPECT_TRUE(holds);
}

TEST(CopyRulePropertyTest, WithoutEventsNothingIsOrderedTwice) {
  const bool holds = rc::check([] {
    const CopySwarm before = RandomSwarm(*rc::gen::arbitrary<bool>());
    CopyModel model = RandomModel();
    model.balance.state_load_seconds += 1;  // a copy that is there at once would be an event
    const auto first = DecideWithCopies(before, model);
    const CopySwarm after = After(first, before, model);
    const auto second = DecideWithCopies(after, model);
    RC_LOG() << Describe(before, first) << Describe(after, second);
    RC_ASSERT(second.empty());
  });
  EXPECT_TRUE(holds);
}

TEST(CopyRulePropertyTest, AlikeWorkersEndAtTheOptimum) {
  const bool holds = rc::check([] {
    CopySwarm swarm = RandomSwarm(/*alike=*/true);
    CopyModel model;
    model.balance.state_load_seconds = 10;
    std::size_t workers = 0;
    const auto all_done = [&] {
      workers = 0;
      for (StageLoad& stage : swarm.stages) {
        for (ReplicaLoad& replica : stage.replicas) replica.ready = true;
        workers += stage.replicas.size();
      }
      for (auto& [worker, copies] : swarm.copies) {
        for (Copy& copy : copies) copy.seconds_left = 0;
      }
    };
    all_done();
    for (int round = 0; round < 10; ++round) {
      const auto orders = DecideWithCopies(swarm, model);
      RC_LOG() << Describe(swarm, orders);
      swarm = After(orders, swarm, model);
      all_done();
    }
    RC_ASSERT(Throughput(swarm, model) >=
              static_cast<double>(workers / swarm.stages.size()) * (1 - 1e-9));
  });
  EXPECT_TRUE(holds);
}

TEST(CopyRulePropertyTest, WithoutMemoryForCopiesTheOrdersAreTheTrainers) {
  const bool holds = rc::check([] {
    const CopySwarm swarm = RandomSwarm(*rc::gen::arbitrary<bool>(), /*with_copies=*/false);
    CopyModel model = RandomModel();
    model.copies_per_worker = 0;
    model.balance.donor_drag = model.copy_drag;
    const auto copies = DecideWithCopies(swarm, model);
    const auto moves =
        protocol::Balance(protocol::BalancePolicy::kEvent, protocol::BalanceTrigger::kChange,
                          swarm.stages, model.balance);
    RC_LOG() << Describe(swarm, copies);
    RC_ASSERT(copies.size() == moves.size());
    for (std::size_t i = 0; i < moves.size(); ++i) {
      RC_ASSERT(copies[i].action == CopyAction::kMove);
      RC_ASSERT(copies[i].worker == moves[i].worker);
      RC_ASSERT(copies[i].from == moves[i].from && copies[i].to == moves[i].to);
      RC_ASSERT(copies[i].reason == moves[i].reason);
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace swarm::ctl
