#include "operator/plan/pools/pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/pods/backoff.h"

namespace swarm::plan {
namespace {

using api::PoolState;
using std::chrono::seconds;

const WallTime kNow{seconds(1'800'000'000)};

class PoolsTest : public testing::Test {
 protected:
  PoolsTest() {
    specs_[0] = {.name = "spot", .maxReplicas = 8};
    specs_[1] = {.name = "demand"};
    for (const api::Pool& spec : specs_) {
      pools_.push_back({.spec = &spec, .load = {}, .memory = {.name = spec.name}});
    }
  }

  void Wait(std::size_t pool, std::uint64_t count, std::int64_t age) {
    pools_[pool].load.waiting = count;
    pools_[pool].load.waits_since = kNow - seconds(age);
  }
  std::vector<std::uint64_t> Targets(std::uint64_t wanted) {
    std::vector<std::uint64_t> counts;
    for (const PoolTarget& target : Spread(wanted, pools_)) counts.push_back(target.pods);
    return counts;
  }

  api::Pool specs_[2];
  std::vector<PoolView> pools_;
};

TEST_F(PoolsTest, ThePreferredPoolIsFilledFirstUpToItsLimit) {
  EXPECT_EQ(Targets(6), (std::vector<std::uint64_t>{6, 0}));
  EXPECT_EQ(Targets(12), (std::vector<std::uint64_t>{8, 4}));
}

TEST_F(PoolsTest, PodsAreWholeAndALimitCountsWorkers) {
  pools_[0].pod_workers = 4;
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{1, 0}));
  EXPECT_EQ(Targets(6), (std::vector<std::uint64_t>{2, 0}));
  EXPECT_EQ(Targets(9), (std::vector<std::uint64_t>{2, 1}));
  pools_[0].pod_workers = 3;  // 8 are allowed
  pools_[1].pod_workers = 2;
  EXPECT_EQ(Targets(9), (std::vector<std::uint64_t>{2, 2}));
}

TEST_F(PoolsTest, APoolThatCannotBeReachedKeepsItsPodsAndOthersGetTheNewOnes) {
  pools_[0].load.placed = 3;
  pools_[0].reachable = false;
  EXPECT_EQ(Targets(6), (std::vector<std::uint64_t>{3, 3}));
  EXPECT_EQ(Targets(2), (std::vector<std::uint64_t>{2, 0}));
  pools_[0].load.placed = 0;
  EXPECT_EQ(Targets(6), (std::vector<std::uint64_t>{0, 6}));
}

TEST_F(PoolsTest, APoolIsDryOnceAPodHasWaitedTooLong) {
  pools_[0].load.placed = 2;
  Wait(0, 2, 299);
  Remember(kNow, "uid", &pools_);
  EXPECT_TRUE(pools_[0].usable());
  EXPECT_EQ(NextChange(kNow, pools_), kNow + seconds(1));
  Wait(0, 2, 300);
  Remember(kNow, "uid", &pools_);
  EXPECT_EQ(pools_[0].memory.state, PoolState::kProbing);
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{2, 2}));
  EXPECT_TRUE(Spread(4, pools_)[0].probe);
  EXPECT_FALSE(Spread(4, pools_)[1].probe);
}

TEST_F(PoolsTest, PodsThatSomebodyHoldsBackSayNothingAboutCapacity) {
  pools_[0].load.gated = 4;
  Remember(kNow, "uid", &pools_);
  EXPECT_TRUE(pools_[0].usable());
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{4, 0}));
}

TEST_F(PoolsTest, AProbeThatGetsANodeBringsThePoolBack) {
  Wait(0, 1, 1000);
  Remember(kNow, "uid", &pools_);
  ASSERT_FALSE(pools_[0].usable());
  pools_[0].load = {.placed = 1, .placed_last = kNow + seconds(50)};
  Remember(kNow + seconds(51), "uid", &pools_);
  EXPECT_TRUE(pools_[0].usable());
  pools_[1].load.placed = 4;
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{4, 0}));
}

TEST_F(PoolsTest, PodsThatWaitElsewhereAreNotMovedForAPoolThatCameBack) {
  pools_[0].load.placed = 1;
  Wait(1, 3, 10);
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{1, 3}));
  // But they are the first to go when fewer are wanted.
  EXPECT_EQ(Targets(1), (std::vector<std::uint64_t>{1, 0}));
}

TEST_F(PoolsTest, WhereNothingIsToBeHadPodsStayWhereTheyWait) {
  Wait(0, 1, 1000);
  Wait(1, 3, 1000);
  Remember(kNow, "uid", &pools_);
  EXPECT_EQ(Targets(4), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(Targets(6), (std::vector<std::uint64_t>{1, 5}));
}

TEST_F(PoolsTest, EachTimeAPoolIsFoundDryItsNextProbeIsLater) {
  seconds last{0};
  for (std::uint64_t attempt = 1; attempt <= 3; ++attempt) {
    MarkDry(kNow, "uid", &pools_[0]);
    EXPECT_EQ(pools_[0].memory.attempts, attempt);
    const seconds wait = *pools_[0].memory.retryTime - kNow;
    EXPECT_GT(wait, last);
    last = wait;
  }
  EXPECT_LE(last, seconds(3600) * 12 / 10);
}

TEST(BackOffTest, DoublesUpToACapAndIsTheSameWhenAskedAgain) {
  const auto wait = [](std::uint64_t attempts, const char* who) {
    return BackOff(seconds(10), seconds(300), attempts, who).count();
  };
  EXPECT_EQ(wait(0, "a"), 0);
  EXPECT_NEAR(static_cast<double>(wait(1, "a")), 10, 2);
  EXPECT_NEAR(static_cast<double>(wait(4, "a")), 80, 16);
  EXPECT_NEAR(static_cast<double>(wait(1000, "a")), 300, 60);
  EXPECT_EQ(wait(7, "a"), wait(7, "a"));
  EXPECT_NE(wait(7, "a"), wait(7, "b"));
}

}  // namespace
}  // namespace swarm::plan
