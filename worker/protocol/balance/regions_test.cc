#include "worker/protocol/balance/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <sstream>

#include "worker/protocol/balance/balance.h"

namespace swarm::protocol {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Stages = std::vector<StageLoad>;

/// A ready worker; its name begins with its region.
ReplicaLoad In(const std::string& region, int number, double rate = 1) {
  return {WorkerId(region + std::to_string(number)), rate, true, false, region};
}

/// Stages of workers in these regions: {{"eu", "us"}, {"eu"}}.
Stages Of(const std::vector<std::vector<std::string>>& regions) {
  Stages stages;
  int number = 0;
  for (const auto& stage : regions) {
    stages.emplace_back();
    for (const std::string& region : stage) stages.back().replicas.push_back(In(region, number++));
  }
  return stages;
}

/// The regions of the stages, for failures: "[eu us] [eu]".
std::string Describe(const Stages& stages) {
  std::ostringstream text;
  for (const StageLoad& stage : stages) {
    text << "[";
    for (const ReplicaLoad& replica : stage.replicas) text << replica.region << " ";
    text << "] ";
  }
  return text.str();
}

BalanceModel Surviving() { return {.regions = {.survive_loss = true}}; }

/// A boundary of a microbatch, and a sum of each of the stages.
BalanceModel Near(double boundary, double sum, std::size_t stages) {
  return {.regions = {.boundary_bytes = boundary, .sum_bytes = std::vector(stages, sum)}};
}

std::vector<BalanceOrder> AtChange(const Stages& stages, const BalanceModel& model) {
  return Balance(BalancePolicy::kEvent, BalanceTrigger::kChange, stages, model);
}

/// Carries out the orders, and gives all time to load.
Stages After(const std::vector<BalanceOrder>& orders, Stages stages) {
  for (const BalanceOrder& order : orders) Apply(order, &stages);
  for (StageLoad& stage : stages) {
    for (ReplicaLoad& replica : stage.replicas) replica.ready = true;
  }
  return stages;
}

/// As the trainer does it: the first order, and then it decides again.
Stages Settle(Stages stages, const BalanceModel& model) {
  for (int i = 0; i < 40; ++i) {
    const auto orders = AtChange(stages, model);
    if (orders.empty()) return stages;
    stages = After({orders.front()}, stages);
  }
  ADD_FAILURE() << "moves do not end: " << Describe(stages);
  return stages;
}

/// Calls for each way to give the workers stages, if each has one.
template <typename Call>
void EachPlacement(const std::vector<ReplicaLoad>& workers, std::size_t stages, const Call& call) {
  std::size_t ways = 1;
  for (std::size_t i = 0; i < workers.size(); ++i) ways *= stages;
  for (std::size_t way = 0; way < ways; ++way) {
    Stages placed(stages);
    std::size_t rest = way;
    for (const ReplicaLoad& worker : workers) {
      placed[rest % stages].replicas.push_back(worker);
      rest /= stages;
    }
    bool all = true;
    for (const StageLoad& stage : placed) all = all && !stage.replicas.empty();
    if (all) call(placed);
  }
}

std::vector<ReplicaLoad> WorkersOf(const Stages& stages) {
  std::vector<ReplicaLoad> workers;
  for (const StageLoad& stage : stages) {
    workers.insert(workers.end(), stage.replicas.begin(), stage.replicas.end());
  }
  return workers;
}

/// The fewest bytes that cross in any placement of the same workers that is as fast.
double LeastBytes(const Stages& stages, const RegionRule& rule) {
  double least = CrossingBytes(stages, rule);
  EachPlacement(WorkersOf(stages), stages.size(), [&](const Stages& other) {
    if (Throughput(other) < Throughput(stages)) return;
    least = std::min(least, CrossingBytes(other, rule));
  });
  return least;
}

/// Up to three stages with a worker each, and up to seven workers in up to three regions.
Stages RandomStages() {
  Stages stages(*rc::gen::inRange<std::size_t>(1, 4));
  const auto workers = *rc::gen::inRange<std::size_t>(stages.size(), 8);
  for (std::size_t i = 0; i < workers; ++i) {
    const std::size_t stage =
        i < stages.size() ? i : *rc::gen::inRange<std::size_t>(0, stages.size());
    stages[stage].replicas.push_back(
        In(*rc::gen::element<std::string>("eu", "us", "as"), static_cast<int>(i)));
  }
  return stages;
}

TEST(SpreadTest, ANewcomerGoesWhereItsRegionIsMissing) {
  const Stages stages = Of({{"eu", "us"}, {"eu", "eu"}, {"us"}});
  EXPECT_EQ(PlaceJoiner(stages, "us", {}), StageIndex(2)) << "the load alone";
  EXPECT_EQ(PlaceJoiner(stages, "us", Surviving()), StageIndex(1));
  EXPECT_EQ(PlaceJoiner(stages, "eu", Surviving()), StageIndex(2));
  EXPECT_EQ(PlaceJoiner(Of({{"eu", "us"}, {}}), "eu", Surviving()), StageIndex(1))
      << "a stage without workers stops the job";
  EXPECT_EQ(PlaceJoiner(Of({{"eu", "us", "eu"}, {"us", "eu"}}), "eu", Surviving()), StageIndex(1))
      << "and where nothing is missing the load decides";
}

TEST(SpreadTest, AWorkerMovesToAStageThatIsInOneRegion) {
  const Stages stages = Of({{"eu", "us", "us"}, {"eu", "eu", "eu"}});
  EXPECT_THAT(AtChange(stages, {}), IsEmpty());
  const auto orders = AtChange(stages, Surviving());
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].worker, WorkerId("us1"));
  EXPECT_EQ(orders[0].reason, "stage 1 is in one region alone");
}

TEST(SpreadTest, TheLoadTakesNoWorkerThatKeepsRegionsApart) {
  const Stages stages = Of({{"eu", "us", "us", "us"}, {"eu", "us"}});
  const auto orders = AtChange(stages, Surviving());
  for (const BalanceOrder& order : orders) EXPECT_NE(order.worker, WorkerId("eu0"));
  const Stages apart = Of({{"eu", "us"}, {"us"}});
  EXPECT_THAT(AtChange(apart, Surviving()), IsEmpty());
}

TEST(SpreadTest, TwoRegionsInEachStageTakesAnExchange) {
  const Stages stages = Of({{"eu", "eu"}, {"us", "as"}});
  const auto first = AtChange(stages, Surviving());
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].from, StageIndex(0));
  EXPECT_EQ(CountSpread(Settle(stages, Surviving())), 2u);
}

TEST(SpreadTest, AMoveWaitsForTheWorkerThatIsOnItsWay) {
  Stages stages = Of({{"eu"}, {"us", "as", "eu"}});
  stages[1].replicas[2].ready = false;
  // Without `us1` the ready ones would be in one region.
  EXPECT_THAT(SpreadOverRegions(stages), IsEmpty());
  stages[1].replicas[2].ready = true;
  EXPECT_THAT(SpreadOverRegions(stages), SizeIs(1));
}

TEST(SpreadTest, AStageWithoutWorkersTakesOneThatKeepsRegionsApartLast) {
  const Stages stages = Of({{"eu", "us"}, {}, {"eu", "eu"}});
  EXPECT_EQ(FillEmptied(stages).at(0).from, StageIndex(0));
  EXPECT_EQ(FillEmptied(stages, Surviving().regions).at(0).from, StageIndex(2));
  EXPECT_EQ(FillEmptied(Of({{"eu", "us"}, {}}), Surviving().regions).at(0).from, StageIndex(0));
}

TEST(SpreadTest, ItIsToldWhatCannotBe) {
  EXPECT_EQ(DescribeOneRegion(Of({{"eu", "us"}, {"us", "eu"}})), "");
  EXPECT_EQ(DescribeOneRegion(Of({{"eu", "us"}, {"us"}})),
            "stage 1 is in us alone: with 3 workers in 2 regions 1 of 2 stages can be in two");
  EXPECT_THAT(DescribeOneRegion(Of({{"eu", "eu"}, {"us", "us"}})), HasSubstr("on their way"));
  EXPECT_THAT(DescribeOneRegion(Of({{"eu"}, {"eu"}})), HasSubstr("all workers are in one region"));
  EXPECT_THAT(DescribeOneRegion(Of({{""}})), HasSubstr("a region without a name"));
}

TEST(SpreadPropertyTest, TheMostIsTheMostOfAllPlacements) {
  EXPECT_TRUE(rc::check([] {
    const Stages stages = RandomStages();
    std::size_t most = 0;
    EachPlacement(WorkersOf(stages), stages.size(),
                  [&](const Stages& placed) { most = std::max(most, CountSpread(placed)); });
    RC_LOG() << Describe(stages);
    RC_ASSERT(MostSpread(stages) == most);
  }));
}

TEST(SpreadPropertyTest, AsManyStagesAsCanBeComeToTwoRegionsAndNoMoveTakesOneBack) {
  EXPECT_TRUE(rc::check([] {
    Stages stages = RandomStages();
    for (int i = 0; i < 40; ++i) {
      const auto orders = AtChange(stages, Surviving());
      RC_LOG() << Describe(stages);
      if (orders.empty()) break;
      const std::size_t before = CountSpread(stages);
      stages = After({orders.front()}, stages);
      RC_ASSERT(CountSpread(stages) >= before);
      for (const StageLoad& stage : stages) RC_ASSERT(!stage.replicas.empty());
    }
    RC_ASSERT(AtChange(stages, Surviving()).empty());
    RC_ASSERT(CountSpread(stages) == MostSpread(stages));
  }));
}

TEST(SpreadPropertyTest, WithoutTwoRegionsEveryDecisionIsThatOfTheLoad) {
  EXPECT_TRUE(rc::check([] {
    Stages stages = RandomStages();
    const auto region = *rc::gen::element<std::string>("", "eu");
    for (StageLoad& stage : stages) {
      for (ReplicaLoad& replica : stage.replicas) {
        replica.region = region;
        replica.rate = *rc::gen::inRange(1, 9);
        replica.ready = *rc::gen::inRange(0, 5) > 0;
      }
    }
    if (*rc::gen::inRange(0, 3) == 0) stages.back().replicas.clear();
    BalanceModel model = Near(100, 1, stages.size());
    model.regions.survive_loss = *rc::gen::arbitrary<bool>();
    for (const BalancePolicy policy : {BalancePolicy::kEvent, BalancePolicy::kPeriodic}) {
      const auto with = Balance(policy, BalanceTrigger::kRound, stages, model);
      const auto without = Balance(policy, BalanceTrigger::kRound, stages, {});
      RC_ASSERT(with.size() == without.size());
      for (std::size_t i = 0; i < with.size(); ++i) {
        RC_ASSERT(with[i].worker == without[i].worker);
        RC_ASSERT(with[i].to == without[i].to);
        RC_ASSERT(with[i].reason == without[i].reason);
      }
    }
    RC_ASSERT(PlaceJoiner(stages, region, model) == PlaceJoiner(stages));
  }));
}

TEST(NearTest, OfEquallySlowStagesANewcomerTakesTheOneNearIts) {
  const Stages stages = Of({{"eu"}, {"eu"}, {"us"}, {"us"}});
  EXPECT_EQ(PlaceJoiner(stages, "us", Near(100, 100, 4)), StageIndex(2));
  EXPECT_EQ(PlaceJoiner(stages, "eu", Near(100, 100, 4)), StageIndex(0));
  // A stage that is slow goes first, wherever it is.
  Stages slow = stages;
  for (std::size_t s = 1; s < 4; ++s) slow[s].replicas.push_back(slow[s].replicas[0]);
  EXPECT_EQ(PlaceJoiner(slow, "us", Near(100, 100, 4)), StageIndex(0));
}

TEST(NearTest, CrossingBytesAreThoseOfRoutesAndOfSums) {
  const RegionRule rule = Near(100, 1, 2).regions;
  EXPECT_DOUBLE_EQ(CrossingBytes(Of({{"eu", "eu"}, {"eu"}}), rule), 0);
  EXPECT_DOUBLE_EQ(CrossingBytes(Of({{"eu", "eu"}, {"us", "us"}}), rule), 100);
  EXPECT_DOUBLE_EQ(CrossingBytes(Of({{"eu", "us"}, {"us", "eu"}}), rule), 2 + 2);
  EXPECT_DOUBLE_EQ(CrossingBytes(Of({{"eu", "us"}, {"eu", "eu"}}), rule), 2 + 50);
  EXPECT_DOUBLE_EQ(CrossingBytes(Of({{"eu", "us", "as"}, {"eu"}}), rule), 4 + 200.0 / 3);
}

TEST(NearTest, TwoWorkersAreExchangedWhereThatSavesBytesAndNoneForLittle) {
  const Stages mixed = Of({{"eu", "us"}, {"us", "eu"}});
  EXPECT_THAT(AtChange(mixed, Near(100, 1, 2)), IsEmpty());
  const auto orders = AtChange(mixed, Near(1, 100, 2));
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].reason, "fewer bytes cross between regions with it there");
  EXPECT_DOUBLE_EQ(CrossingBytes(Settle(mixed, Near(1, 100, 2)), Near(1, 100, 2).regions), 1);
  BalanceModel costly = Near(1, 100, 2);
  costly.regions.state_bytes = {1e9, 1e9};
  EXPECT_THAT(AtChange(mixed, costly), IsEmpty());
}

TEST(NearTest, OfMoversThatAreWorthTheSameTheNearestGoes) {
  const Stages stages = Of({{"us", "us", "eu", "eu"}, {"eu"}});
  const auto orders = AtChange(stages, Near(1, 100, 2));
  ASSERT_FALSE(orders.empty());
  EXPECT_EQ(orders[0].worker, WorkerId("eu2"));
}

TEST(NearTest, WorkersThatComeInAnyOrderEndNearTheFewestBytes) {
  // All orders in which workers of two regions come, against all placements that are as fast.
  for (const std::size_t stages : {2, 3}) {
    for (const int workers : {4, 5, 6}) {
      for (int order = 0; order < 1 << workers; ++order) {
        for (const double sum : {0.1, 1.0, 10.0, 100.0}) {
          const BalanceModel model = Near(10, sum, stages);
          Stages placed(stages);
          for (int i = 0; i < workers; ++i) {
            const ReplicaLoad worker = In((order >> i) % 2 == 0 ? "eu" : "us", i);
            placed[PlaceJoiner(placed, worker.region, model).value].replicas.push_back(worker);
          }
          placed = Settle(placed, model);
          const double bytes = CrossingBytes(placed, model.regions);
          EXPECT_LE(bytes, 1.05 * LeastBytes(placed, model.regions))
              << Describe(placed) << "with sums of " << sum;
        }
      }
    }
  }
}

}  // namespace
}  // namespace swarm::protocol
