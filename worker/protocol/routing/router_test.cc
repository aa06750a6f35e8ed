#include "worker/protocol/routing/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace swarm::protocol {
namespace {

TEST(RouterTest, EarlyStagesHoldWhatTheStagesBehindThemNeed) {
  EXPECT_EQ(ComputeInFlightLimits({1, 1, 1}), (std::vector<std::uint64_t>{6, 4, 2}));
  EXPECT_EQ(ComputeInFlightLimits({1, 3}), (std::vector<std::uint64_t>{8, 2}));
  EXPECT_EQ(ComputeInFlightLimits({3, 1}), (std::vector<std::uint64_t>{3, 2}));
}

TEST(RouterTest, ARouteNamesOneWorkerOfEachStage) {
  Router router(1, 2);
  router.SetReplicas({{WorkerId("a")}, {WorkerId("b"), WorkerId("c")}});
  const auto route = router.Draw();
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ((*route)[0], WorkerId("a"));
  EXPECT_NE((*route)[1], WorkerId("a"));
}

TEST(RouterTest, DrawsStopAtTheLimitAndGoOnAfterARelease) {
  Router router(1, 1);
  const WorkerId a("a");
  router.SetReplicas({{a}});
  for (std::uint64_t i = 0; i < router.limit(a); ++i) EXPECT_TRUE(router.Draw().has_value());
  EXPECT_FALSE(router.Draw().has_value());
  EXPECT_EQ(router.in_flight(a), router.limit(a));
  router.Release(a);
  EXPECT_TRUE(router.Draw().has_value());
}

TEST(RouterTest, AWorkerGetsTheLeastThatItWantsButNotMoreThanItMayHave) {
  const auto limit = [](InFlightBounds bounds) {
    Router router(1, 1, bounds);
    router.SetReplicas({{WorkerId("a")}});
    return router.limit(WorkerId("a"));
  };
  EXPECT_EQ(limit({}), 2u);
  EXPECT_EQ(limit({.least = 8}), 8u);
  EXPECT_EQ(limit({.most = 5, .least = 8}), 5u);
  EXPECT_EQ(limit({.most = 5}), 2u);
}

TEST(RouterTest, WhoIsMeasuredHoldsWhatItWorksThroughWhileAMicrobatchIsOnItsWay) {
  EXPECT_EQ(ComputeInFlightLimit(0.05, 1.0, 2, 4, 64), 28u);
  EXPECT_EQ(ComputeInFlightLimit(0.05, 1.01, 2, 4, 64), 29u)
      << "a part of one keeps it waiting too";
  EXPECT_EQ(ComputeInFlightLimit(0.05, 1.0, 30, 4, 64), 30u) << "never less than without";
  EXPECT_EQ(ComputeInFlightLimit(0.05, 1.0, 30, 4, 20), 30u);
  EXPECT_EQ(ComputeInFlightLimit(1e-6, 1.0, 2, 4, 64), 64u) << "memory is bounded";
  EXPECT_EQ(ComputeInFlightLimit(0, 1.0, 2, 4, 64), 2u);
  EXPECT_EQ(ComputeInFlightLimit(0.05, 0, 2, 4, 64), 2u);
}

TEST(RouterTest, ALongWayRaisesTheLimitAndWaitingOnItDoesNot) {
  Router router(1, 2);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a}, {b}});
  const std::uint64_t before = router.limit(b);
  router.MeasureStay(b, 0.8);
  EXPECT_EQ(router.limit(b), before) << "how long it works is not known yet";
  router.MeasureForward(b, 0.02);
  router.MeasureBackward(b, 0.03);
  EXPECT_EQ(router.limit(b), 20u);
  router.MeasureStay(b, 3.0);
  EXPECT_EQ(router.limit(b), 20u);
  router.MeasureStay(b, 0.5);
  EXPECT_EQ(router.limit(b), 14u);
  router.SetReplicas({{a}, {b}});
  EXPECT_EQ(router.limit(b), 14u) << "who stays keeps its measurements";
  EXPECT_EQ(router.limit(a), 4u);
}

TEST(RouterTest, AManifestMayLetWorkersHoldMoreThanIsUsual) {
  const auto limit = [](InFlightBounds bounds) {
    Router router(1, 2, bounds);
    const WorkerId a("a"), b("b");
    router.SetReplicas({{a}, {b}});
    router.MeasureForward(b, 0.001);
    router.MeasureBackward(b, 0.001);
    router.MeasureStay(b, 0.4);
    return router.limit(b);
  };
  EXPECT_EQ(limit({}), 2 * kInFlightPerStage);
  EXPECT_EQ(limit({.most = 1000}), 204u) << "as many as keep it busy";
  EXPECT_EQ(limit({.most = 100}), 100u);
  EXPECT_EQ(limit({.most = 8}), 8u);
}

/// A swarm of one worker for each stage in virtual time. Hops take `hop` seconds; a worker does one
/// task at a time, backwards first. Hops and computations take up to `spread` of their time longer,
/// no two alike. Returns the share of the time that the last stage worked, once warm.
class Pipeline {
 public:
  Pipeline(std::uint64_t stages, double service, double hop, double spread = 0)
      : service_(service),
        hop_(hop),
        spread_(spread),
        router_(1, stages),
        free_at_(stages),
        busy_(stages) {
    std::vector<std::vector<WorkerId>> replicas;
    for (std::uint64_t s = 0; s < stages; ++s) replicas.push_back({Name(s)});
    router_.SetReplicas(replicas);
  }

  double UtilisationOfTheLast(double seconds) {
    Issue(0);
    double begin = 0, busy = 0;
    while (!agenda_.empty()) {
      const auto [at, event] = *agenda_.begin();
      agenda_.erase(agenda_.begin());
      if (begin == 0 && at > seconds / 2) {
        begin = at;
        busy = busy_.back();
      }
      if (at > seconds) return (busy_.back() - busy) / (at - begin);
      Do(at, event);
    }
    return 0;
  }
  std::uint64_t most_in_flight() const { return most_; }

 private:
  struct Event {
    std::uint64_t stage;
    bool backward;
    bool done;
    double drawn;
  };

  static WorkerId Name(std::uint64_t stage) { return WorkerId(std::to_string(stage)); }
  void Issue(double now) {
    while (router_.Draw()) Arrive(now + hop_, {0, false, false, now});
    most_ = std::max(most_, router_.in_flight(Name(0)));
  }
  void Arrive(double at, Event event) { agenda_.emplace(at + hop_ * Extra(), event); }
  double Extra() { return spread_ * static_cast<double>(random_() % 1000) / 1000; }
  void Do(double now, Event event) {
    const std::uint64_t s = event.stage, last = free_at_.size() - 1;
    const double length = event.backward ? service_ * 2 / 3 : service_ / 3;
    if (!event.done) {
      const double lasts = length * (1 + Extra());
      const double begin = std::max(now, free_at_[s]);
      free_at_[s] = begin + lasts;
      busy_[s] += lasts;
      event.done = true;
      agenda_.emplace(free_at_[s], event);
      return;
    }
    event.done = false;
    if (!event.backward) {
      router_.MeasureForward(Name(s), length);
      if (s < last) return Arrive(now + hop_, {s + 1, false, false, event.drawn});
      event.backward = true;
      return Arrive(now, event);
    }
    router_.MeasureBackward(Name(s), length);
    router_.MeasureStay(Name(s), now - event.drawn);
    router_.Release(Name(s));
    if (s > 0) Arrive(now + hop_, {s - 1, true, false, event.drawn});
    Issue(now);
  }

  const double service_, hop_, spread_;
  std::mt19937 random_{7};
  Router router_;
  std::vector<double> free_at_, busy_;
  std::multimap<double, Event> agenda_;
  std::uint64_t most_ = 0;
};

TEST(RouterTest, NoStageIdlesHoweverFarApartTheStagesAre) {
  for (const double hop : {0.0, 0.005, 0.08, 0.2}) {
    Pipeline pipeline(4, 0.064, hop);
    EXPECT_GT(pipeline.UtilisationOfTheLast(120), 0.99) << hop << " s between stages";
    const double on_the_way = 4 * 0.064 + 8 * hop;
    EXPECT_LE(static_cast<double>(pipeline.most_in_flight()), on_the_way / 0.064 + 1 + 8)
        << hop << " s between stages";
  }
}

TEST(RouterTest, NoStageIdlesWhereNoTwoHopsAndComputationsTakeTheSameTime) {
  for (const double hop : {0.005, 0.08, 0.2}) {
    Pipeline pipeline(4, 0.064, hop, 0.5);
    EXPECT_GT(pipeline.UtilisationOfTheLast(600), 0.99) << hop << " s between stages";
  }
}

TEST(RouterTest, WhereTheDeviceHasNoRoomForMoreTheJobSetsTheLimit) {
  Router router(1, 2, {.most = 3});
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a}, {b}});
  EXPECT_EQ(router.limit(a), 3u);
  EXPECT_EQ(router.limit(b), 2u) << "as without";
  for (const WorkerId& worker : {a, b}) {
    router.MeasureStay(worker, 0.8);
    router.MeasureForward(worker, 0.02);
    router.MeasureBackward(worker, 0.03);
    EXPECT_EQ(router.limit(worker), 3u);
  }
}

/// Two stages of a fast and three slow workers, as they were measured. The fast ones are twice as
/// fast, and no two are quite alike; the names put them at other seats.
class KindsTest : public testing::Test {
 protected:
  KindsTest() {
    router_.SetReplicas({{A(0), A(1), A(2), A(3)}, {B(0), B(1), B(2), B(3)}});
    for (int i = 0; i < 4; ++i) {
      router_.MeasureBackward(A(i), (i == 0 ? 1 : 2) * (1 + 0.01 * i));
      router_.MeasureBackward(B(i), (i == 2 ? 1 : 2) * (1 + 0.02 * i));
    }
  }
  static WorkerId A(int i) { return WorkerId("a" + std::to_string(i)); }
  static WorkerId B(int i) { return WorkerId("b" + std::to_string(i)); }
  std::map<std::vector<WorkerId>, int> DrawRoutes(int count) {
    std::map<std::vector<WorkerId>, int> routes;
    for (int i = 0; i < count; ++i) {
      const auto route = router_.Draw();
      ++routes[*route];
      for (const WorkerId& worker : *route) router_.Release(worker);
    }
    return routes;
  }

  Router router_{1, 2};
};

TEST_F(KindsTest, FastWorkersShareALane) {
  const auto routes = DrawRoutes(500);
  int with_the_fast = 0, both = 0, lanes = 0;
  for (const auto& [route, count] : routes) {
    if (count > 10) ++lanes;  // others are plain
    if (route[0] == A(0)) with_the_fast += count;
    if (route == std::vector{A(0), B(2)}) both = count;
  }
  EXPECT_EQ(lanes, 4) << "one for each worker, since workers that are about alike count as equal";
  EXPECT_NEAR(with_the_fast, 200, 5) << "its share of the rate";
  EXPECT_NEAR(both, 200, 5);
}

TEST_F(KindsTest, AWorkerThatBecomesSlowLosesItsPlaceOnTheLine) {
  (void)DrawRoutes(100);
  for (int i = 0; i < 60; ++i) router_.MeasureBackward(A(0), 2);
  for (int i = 0; i < 60; ++i) router_.MeasureBackward(A(3), 1);
  (void)DrawRoutes(40);  // lanes are not cut anew at once
  const std::vector<WorkerId> fast{A(3), B(2)};
  EXPECT_NEAR(DrawRoutes(500)[fast], 200, 5);
}

TEST(RouterTest, WorkersThatAreAboutAlikeHaveALaneEachHoweverTheyWereMeasured) {
  std::vector<std::vector<WorkerId>> replicas(2);
  for (int i = 10; i < 30; ++i) {
    replicas[0].push_back(WorkerId("a" + std::to_string(i)));
    replicas[1].push_back(WorkerId("b" + std::to_string(i)));
  }
  Router router(1, 2);
  router.SetReplicas(replicas);
  for (std::size_t i = 0; i < 20; ++i) {
    router.MeasureBackward(replicas[0][i], i % 2 == 0 ? 1.04 : 0.97);
    router.MeasureBackward(replicas[1][i], 1);
  }
  std::map<std::vector<WorkerId>, int> routes;
  for (int i = 0; i < 640; ++i) {
    const auto route = router.Draw();
    ++routes[*route];
    for (const WorkerId& worker : *route) router.Release(worker);
  }
  EXPECT_EQ(std::ranges::count_if(routes, [](const auto& entry) { return entry.second >= 30; }),
            20);
}

TEST(RouterTest, BeforeAStageIsMeasuredAllPairsGetMicrobatches) {
  Router router(1, 2);
  router.SetReplicas({{WorkerId("a1"), WorkerId("a2")}, {WorkerId("b1"), WorkerId("b2")}});
  for (const char* name : {"a1", "a2"}) router.MeasureBackward(WorkerId(name), 1);
  std::map<std::vector<WorkerId>, int> routes;
  for (int i = 0; i < 60; ++i) {
    const auto route = router.Draw();
    ++routes[*route];
    for (const WorkerId& worker : *route) router.Release(worker);
  }
  EXPECT_EQ(routes.size(), 4u);
}

TEST(RouterTest, NoFreshMicrobatchTakesABrokenPairAsLongAsThereIsAnother) {
  const std::vector<WorkerId> a{WorkerId("a1"), WorkerId("a2")}, b{WorkerId("b1"), WorkerId("b2")};
  BrokenPairs broken;
  Router router(1, 2, {}, &broken);
  router.SetReplicas({a, b});
  for (const auto& stage : {a, b}) {
    for (const WorkerId& worker : stage) router.MeasureBackward(worker, 1);
  }
  const auto draw = [&] {
    std::map<std::vector<WorkerId>, int> routes;
    for (int i = 0; i < 60; ++i) {
      const auto route = router.Draw();
      if (!route) continue;
      ++routes[*route];
      for (const WorkerId& worker : *route) router.Release(worker);
    }
    return routes;
  };
  const auto used = [](const auto& routes, const WorkerId& x, const WorkerId& y) {
    const auto found = routes.find(std::vector{x, y});
    return found == routes.end() ? 0 : found->second;
  };
  const auto whole = draw();
  const bool straight = used(whole, a[0], b[0]) > used(whole, a[0], b[1]);
  const WorkerId &first = straight ? b[0] : b[1], &second = straight ? b[1] : b[0];
  broken.Update(a[0], {first}, Timepoint());
  const auto one_lane = draw();
  EXPECT_EQ(used(one_lane, a[0], first), 0);
  EXPECT_GT(used(one_lane, a[1], second), 50);
  broken.Update(a[1], {second}, Timepoint());
  const auto across = draw();
  EXPECT_GT(used(across, a[0], second), 20) << "no lane is left";
  EXPECT_EQ(used(across, a[0], second) + used(across, a[1], first), 60);
}

TEST(RouterTest, TwoThatNobodyCanDialAreBesideEachOtherOnlyWhereThereIsNoOtherWay) {
  const std::vector<WorkerId> a{WorkerId("a1"), WorkerId("a2")}, b{WorkerId("b1"), WorkerId("b2")};
  Router router(1, 2);
  router.SetReplicas({a, b});
  router.SetRelayed({a[0], b[0]});
  const auto draw = [&] {
    std::map<std::vector<WorkerId>, int> routes;
    for (int i = 0; i < 60; ++i) {
      const auto route = router.Draw();
      ++routes[route.value()];
      for (const WorkerId& worker : *route) router.Release(worker);
    }
    return routes;
  };
  EXPECT_FALSE(draw().contains({a[0], b[0]})) << "before anything is measured";
  for (const auto& stage : {a, b}) {
    for (const WorkerId& worker : stage) router.MeasureBackward(worker, 1);
  }
  EXPECT_FALSE(draw().contains({a[0], b[0]})) << "by lanes";
  router.SetReplicas({{a[0]}, {b[0]}});
  EXPECT_EQ(draw(), (std::map<std::vector<WorkerId>, int>{{{a[0], b[0]}, 60}}));
}

TEST(RouterTest, AStageThatIsFullChargesNobodyElse) {
  Router router(1, 2);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a}, {b}});
  while (router.Draw()) {
  }
  EXPECT_EQ(router.in_flight(a), router.in_flight(b));
}

TEST(RouterTest, AStageWithoutReplicasGivesNoRoute) {
  Router router(1, 2);
  router.SetReplicas({{WorkerId("a")}, {}});
  EXPECT_FALSE(router.Draw().has_value());
}

TEST(RouterTest, AWorkerIsChargedForwardAndBackwardTogether) {
  Router router(1, 1);
  const WorkerId a("a");
  router.SetReplicas({{a}});
  router.MeasureForward(a, 1.0);
  router.MeasureBackward(a, 2.0);
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(a), 3.0);
}

TEST(RouterTest, APartOfARouteChargesOnlyItsStages) {
  Router router(1, 3);
  const WorkerId a("a"), b("b"), c("c");
  router.SetReplicas({{a}, {b}, {c}});
  EXPECT_EQ(router.Draw({.begin = 1, .end = 2, .repair = true}), std::vector{b});
  EXPECT_EQ(router.in_flight(a), 0u);
  EXPECT_EQ(router.in_flight(b), 1u);
  EXPECT_EQ(router.in_flight(c), 0u);
}

TEST(RouterTest, ARepairMayTakeOneSlotMoreThanFreshMicrobatches) {
  Router router(1, 1);
  router.SetReplicas({{WorkerId("a")}});
  while (router.Draw()) {
  }
  EXPECT_TRUE(router.Draw({.begin = 0, .end = 1, .repair = true}).has_value());
  EXPECT_FALSE(router.Draw({.begin = 0, .end = 1, .repair = true}).has_value());
  EXPECT_FALSE(router.Draw().has_value());
}

TEST(RouterTest, WhoIsToBeAvoidedIsDrawnOnlyWhereThereIsNoOther) {
  Router router(1, 1);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a, b}});
  while (const auto route = router.Draw({.begin = 0, .end = 1, .avoid = a})) {
    if ((*route)[0] != a) continue;
    EXPECT_EQ(router.in_flight(b), router.limit(b));
    break;
  }
  router.SetReplicas({{a}});
  router.Release(a);
  EXPECT_EQ(router.Draw({.begin = 0, .end = 1, .avoid = a}), std::vector{a});
}

TEST(RouterTest, WhoStaysKeepsItsLoadAndWhoChangesTheStageBeginsAnew) {
  Router router(1, 2);
  const WorkerId a("a"), b("b"), c("c");
  router.SetReplicas({{a}, {b}});
  ASSERT_TRUE(router.Draw().has_value());
  router.SetReplicas({{a, b}, {c}});
  EXPECT_EQ(router.in_flight(a), 1u);
  EXPECT_EQ(router.in_flight(b), 0u);
  router.Release(WorkerId("gone"));  // is no member: ignored
}

TEST(RouterTest, WhoIsLateIsAtLeastThatSlow) {
  Router router(1, 1);
  const WorkerId a("a"), b("b");
  router.SetReplicas({{a, b}});
  for (const WorkerId& worker : {a, b}) router.MeasureBackward(worker, 1.0);
  router.Charge(a, 0.5);
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(a), 1.0);
  router.Charge(a, 20.0);
  EXPECT_GT(router.EstimateSeconds(a), 1.5);
  EXPECT_DOUBLE_EQ(router.ServiceSeconds(a), 1.0);  // others may be the cause
  EXPECT_DOUBLE_EQ(router.EstimateSeconds(b), 1.0);
}

}  // namespace
}  // namespace swarm::protocol
