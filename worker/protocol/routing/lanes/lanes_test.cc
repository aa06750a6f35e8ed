#include "worker/protocol/routing/lanes/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

using Route = Lanes::Route;

bool AnyRoute(const Route&) { return true; }

std::vector<Lanes::Stop> StageOf(const std::string& name, const std::vector<double>& rates) {
  std::vector<Lanes::Stop> stage;
  for (const double rate : rates) {
    stage.push_back({WorkerId(name + std::to_string(stage.size())), rate});
  }
  return stage;
}

Route RouteOf(const std::string& a, const std::string& b) { return {WorkerId(a), WorkerId(b)}; }

/// How many of so many draws went each way.
std::map<Route, int> Draw(Lanes& lanes, int draws) {
  std::map<Route, int> count;
  for (int i = 0; i < draws; ++i) {
    const auto route = lanes.Draw(AnyRoute);
    if (route) ++count[*route];
  }
  return count;
}

TEST(LanesTest, EqualStagesOfEqualWorkersHaveALaneForEachSeat) {
  Lanes lanes({StageOf("a", {1, 1, 1}), StageOf("b", {2, 2, 2})});
  EXPECT_THAT(lanes.All(), SizeIs(3));
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(Draw(lanes, 3),
                ElementsAre(std::pair(RouteOf("a0", "b0"), 1), std::pair(RouteOf("a1", "b1"), 1),
                            std::pair(RouteOf("a2", "b2"), 1)));
  }
}

TEST(LanesTest, LanesThatAreCutOftenAllHaveTheirTurn) {
  std::map<Route, int> count;
  for (std::uint64_t i = 0; i < 30; ++i) {
    ++count[*Lanes({StageOf("a", {1, 1, 1})}, i).Draw(AnyRoute)];
  }
  EXPECT_EQ(count[Route{WorkerId("a0")}], 10);
  EXPECT_EQ(count[Route{WorkerId("a2")}], 10);
}

/// Names that begin with their region.
std::map<WorkerId, std::string> RegionsOf(const std::vector<std::vector<Lanes::Stop>>& stages) {
  std::map<WorkerId, std::string> regions;
  for (const auto& stage : stages) {
    for (const Lanes::Stop& stop : stage) {
      regions[stop.worker] = stop.worker.value.substr(0, stop.worker.value.find('-'));
    }
  }
  return regions;
}

std::vector<Lanes::Stop> StageIn(const std::string& name, const std::vector<std::string>& regions,
                                 double rate = 1) {
  std::vector<Lanes::Stop> stage;
  for (const std::string& region : regions) {
    stage.push_back({WorkerId(region + "-" + name + std::to_string(stage.size())), rate});
  }
  return stage;
}

/// The share of the microbatches that change regions at each boundary, all added.
double Crossing(const std::vector<std::vector<Lanes::Stop>>& stages) {
  const auto regions = RegionsOf(stages);
  double crossing = 0;
  for (const auto& [route, share] : Lanes(stages).All()) {
    for (std::size_t s = 1; s < route.size(); ++s) {
      crossing += regions.at(route[s - 1]) == regions.at(route[s]) ? 0 : share;
    }
  }
  return crossing;
}

TEST(LanesTest, LanesStayInARegionWhereTheStagesHaveAsManyWorkersThere) {
  std::vector stages{StageIn("a", {"eu", "us", "us", "asia"}),
                     StageIn("b", {"us", "asia", "eu", "us"}),
                     StageIn("c", {"asia", "us", "us", "eu"})};
  EXPECT_GT(Crossing(stages), 0);
  BringRegionsTogether(RegionsOf(stages), &stages);
  EXPECT_DOUBLE_EQ(Crossing(stages), 0);
  EXPECT_EQ(stages[0][0].worker, WorkerId("eu-a0")) << "the first stage stands as it stood";
}

TEST(LanesTest, WhatCannotStayTakesNoPlaceFromWhatCan) {
  std::vector stages{StageIn("a", {"eu", "asia", "us", "asia"}),
                     StageIn("b", {"us", "africa", "africa", "eu"})};
  BringRegionsTogether(RegionsOf(stages), &stages);
  EXPECT_DOUBLE_EQ(Crossing(stages), 0.5) << "of asia and africa";
}

TEST(LanesTest, UnequalStagesCrossRegionsAsSeldomAsTheirSharesAllow) {
  std::vector stages{StageIn("a", {"us", "eu", "us"}),
                     StageIn("b", {"eu", "us", "us", "us", "eu", "us"})};
  BringRegionsTogether(RegionsOf(stages), &stages);
  EXPECT_NEAR(Crossing(stages), 0, 1e-9);
}

TEST(LanesTest, FastStillMeetsFastWhereverTheyAre) {
  std::vector stages{StageIn("a", {"eu"}, 2), StageIn("b", {"us"}, 2)};
  stages[0].push_back({WorkerId("us-a1"), 1});
  stages[1].push_back({WorkerId("eu-b1"), 1});
  BringRegionsTogether(RegionsOf(stages), &stages);
  EXPECT_EQ(stages[1][0].worker, WorkerId("us-b0"));
}

TEST(LanesTest, EachWorkerGetsAsMuchAsItsRate) {
  Lanes lanes({StageOf("a", {3, 1}), StageOf("b", {1, 1, 2})});
  const std::map<Route, int> count = Draw(lanes, 4000);
  EXPECT_THAT(
      count,
      ElementsAre(std::pair(RouteOf("a0", "b0"), 1000), std::pair(RouteOf("a0", "b1"), 1000),
                  std::pair(RouteOf("a0", "b2"), 1000), std::pair(RouteOf("a1", "b2"), 1000)));
}

TEST(LanesTest, ALaneIsDueAtEvenDistances) {
  Lanes lanes({StageOf("a", {5, 3, 2})});
  std::map<Route, int> last;
  for (int i = 0; i < 100; ++i) {
    const Route route = *lanes.Draw(AnyRoute);
    if (const auto before = last.find(route); before != last.end()) {
      const double distance = route[0] == WorkerId("a0") ? 2 : route[0] == WorkerId("a1") ? 3.3 : 5;
      EXPECT_NEAR(i - before->second, distance, 1.4) << route[0].value;
    }
    last[route] = i;
  }
}

TEST(LanesTest, UnlikeStagesHaveAtMostAsManyLanesAsWorkers) {
  const Lanes lanes({StageOf("a", {1.1, 0.7, 2.3, 0.9}), StageOf("b", {1, 1.3, 0.4}),
                     StageOf("c", {0.6, 0.5, 0.8, 1.9, 0.7})});
  EXPECT_LE(lanes.All().size(), 12u);
  double shares = 0;
  std::set<WorkerId> workers;
  for (const auto& [route, share] : lanes.All()) {
    shares += share;
    workers.insert(route.begin(), route.end());
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(workers.size(), 12u);
}

TEST(LanesTest, EndsThatDifferLittleAreOne) {
  EXPECT_THAT(Lanes({StageOf("a", {1, 1, 1}), StageOf("b", {1.01, 1, 0.99})}).All(), SizeIs(3));
  EXPECT_THAT(Lanes({StageOf("a", {1, 1, 1}), StageOf("b", {1.5, 1, 0.5})}).All(), SizeIs(5));
}

TEST(LanesTest, ALaneWithAFullWorkerWaitsAndGetsNoBurstAfterwards) {
  Lanes lanes({StageOf("a", {1, 1}), StageOf("b", {1, 1})});
  lanes.SetOpen(WorkerId("b0"), false);
  lanes.SetOpen(WorkerId("a0"), false);
  EXPECT_EQ(Draw(lanes, 50)[RouteOf("a1", "b1")], 50);
  lanes.SetOpen(WorkerId("b0"), true);
  EXPECT_EQ(Draw(lanes, 1)[RouteOf("a1", "b1")], 1) << "a0 is still full";
  lanes.SetOpen(WorkerId("a0"), true);
  EXPECT_NEAR(Draw(lanes, 10)[RouteOf("a0", "b0")], 5, 1);
  lanes.SetOpen(WorkerId("a0"), false);
  lanes.SetOpen(WorkerId("b1"), false);
  EXPECT_FALSE(lanes.Draw(AnyRoute).has_value()) << "each lane has a full worker";
}

TEST(LanesTest, ALaneThatCannotBePassedIsLeftOut) {
  Lanes lanes({StageOf("a", {1, 1}), StageOf("b", {1, 1})});
  const auto passable = [](const Route& route) { return route[0] != WorkerId("a0"); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(lanes.Draw(passable), RouteOf("a1", "b1"));
}

TEST(LanesTest, AStageWithoutWorkersLeavesNoLanes) {
  EXPECT_TRUE(Lanes({StageOf("a", {1}), {}}).empty());
  EXPECT_TRUE(Lanes().empty());
}

TEST(LanesTest, AWorkerThatLeavesMovesFewOthersToAnotherSeat) {
  std::vector<WorkerId> workers;
  for (int i = 0; i < 100; ++i) workers.push_back(WorkerId("w" + std::to_string(i)));
  const auto before = SeatInLanes(workers);
  for (const int leaver : {0, 42, 99}) {
    auto less = workers;
    less.erase(less.begin() + leaver);
    const auto after = SeatInLanes(less);
    int stay = 0;
    for (std::size_t seat = 0; seat < after.size(); ++seat) stay += before[seat] == after[seat];
    EXPECT_GE(stay, 90) << leaver;
  }
}

}  // namespace
}  // namespace swarm::protocol
