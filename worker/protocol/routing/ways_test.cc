#include "worker/protocol/routing/ways.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "worker/protocol/routing/router.h"

namespace swarm::protocol {
namespace {

const WorkerId kA1("a1"), kA2("a2"), kB1("b1"), kB2("b2");
const Ways::Places kPlaces{{kA1, "eu"}, {kA2, "us"}, {kB1, "eu"}, {kB2, "us"}};
const Shares kApart{{{{"", "eu"}, 0.75}, {{"", "us"}, 0.25}},
                    {{{"eu", "eu"}, 0.75}, {{"us", "us"}, 0.25}}};

using Route = std::vector<WorkerId>;

class WaysTest : public testing::Test {
 protected:
  WaysTest() { router_.SetReplicas({{kA1, kA2}, {kB1, kB2}}); }

  /// Draws as many routes and finishes each at once.
  std::map<Route, int> Draw(int routes) {
    std::map<Route, int> count;
    for (int i = 0; i < routes; ++i) {
      const auto route = router_.Draw();
      ++count[*route];
      for (const WorkerId& worker : *route) router_.Release(worker);
    }
    return count;
  }
  static int Plain(int routes) { return routes / static_cast<int>(Router::kPlainEvery); }

  Router router_{1, 2};
};

TEST_F(WaysTest, RoutesFollowTheSharesAndFewArePlain) {
  router_.SetShares(kApart, kPlaces);
  const int routes = 6400;
  auto count = Draw(routes);
  const int shared = routes - Plain(routes);
  EXPECT_NEAR((count[{kA1, kB1}]), 0.75 * shared, Plain(routes));
  EXPECT_NEAR((count[{kA2, kB2}]), 0.25 * shared, Plain(routes));
  const int across = count[{kA1, kB2}] + count[{kA2, kB1}];
  EXPECT_GT(across, 0) << "a link that nobody takes is not measured";
  EXPECT_LE(across, Plain(routes));
}

TEST_F(WaysTest, TwoRoutersWithTheSameSharesDrawTheSame) {
  Router other(1, 2);
  other.SetReplicas({{kA1, kA2}, {kB1, kB2}});
  for (Router* router : {&router_, &other}) router->SetShares(kApart, kPlaces);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(router_.Draw(), other.Draw());
}

TEST_F(WaysTest, WithoutSharesRoutesArePlain) {
  Router plain(1, 2);
  plain.SetReplicas({{kA1, kA2}, {kB1, kB2}});
  router_.SetShares(kApart, kPlaces);
  router_.SetShares({}, kPlaces);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(router_.Draw(), plain.Draw());
}

TEST_F(WaysTest, AMicrobatchWaitsForAWayWithAShare) {
  router_.SetShares(kApart, kPlaces);
  ASSERT_TRUE(router_.Draw()) << "the first is plain";
  for (const std::uint64_t stage : {0, 1}) {
    while (router_.Draw({.begin = stage, .end = stage + 1})) {
    }
  }
  router_.Release(kA1);
  router_.Release(kB2);
  EXPECT_FALSE(router_.Draw()) << "both have room, but the link between them has no share";
  router_.Release(kA2);
  EXPECT_EQ(router_.Draw(), (Route{kA2, kB2}));
}

TEST_F(WaysTest, WhereAllWorkersOfAPlaceAreGoneTheOthersGoOn) {
  router_.SetShares(kApart, kPlaces);
  router_.SetReplicas({{kA1, kA2}, {kB2}});
  const auto count = Draw(640);
  EXPECT_GE((count.at({kA2, kB2})), 640 - Plain(640));
  router_.SetReplicas({{kA1}, {kB2}});
  EXPECT_EQ(Draw(10).at({kA1, kB2}), 10) << "no way with a share is left";
}

TEST_F(WaysTest, ARepairDoesNotWaitForAWayWithAShare) {
  router_.SetShares(kApart, kPlaces);
  while (router_.Draw()) {
  }
  EXPECT_TRUE(router_.Draw({.begin = 0, .end = 2, .repair = true}));
}

TEST_F(WaysTest, InAPlaceTheFasterWorkerGetsMore) {
  const WorkerId slow("slow");
  Router router(1, 1);
  router.SetReplicas({{kA1, slow}});
  router.SetShares({{{{"", "eu"}, 1}}}, {{kA1, "eu"}, {slow, "eu"}});
  for (int i = 0; i < 50; ++i) {
    router.MeasureBackward(kA1, 1);
    router.MeasureBackward(slow, 4);
  }
  std::map<WorkerId, int> count;
  for (int i = 0; i < 1000; ++i) {
    const auto route = router.Draw();
    ++count[route->front()];
    router.Release(route->front());
  }
  EXPECT_NEAR(count[kA1], 800, 4);
}

}  // namespace
}  // namespace swarm::protocol
