#include "base/virtual_time.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/loop.h"

namespace swarm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(VirtualTimeTest, AnHourPassesAtOnceWhereNothingIsToBeDone) {
  const Timepoint really = std::chrono::steady_clock::now();
  VirtualTime time(1);
  const Timepoint begin = Clock::now();
  Loop loop("test");
  Timepoint ran{};
  loop.PostAt(begin + hours(1), [&] { ran = Clock::now(); });
  EXPECT_FALSE(time.RunFor(milliseconds(3'599'999)));
  EXPECT_EQ(ran, Timepoint());
  EXPECT_TRUE(time.RunFor(milliseconds(2), [&] { return ran != Timepoint(); }));
  EXPECT_GE(ran, begin + hours(1));
  EXPECT_LT(std::chrono::steady_clock::now() - really, hours(1));
}

TEST(VirtualTimeTest, TimeIsRealAgainWhenItIsOver) {
  { const VirtualTime time(1); }
  EXPECT_EQ(VirtualTime::Current(), nullptr);
  Loop loop("test");
  std::promise<void> ran;
  loop.Post([&] { ran.set_value(); });
  ran.get_future().wait();
}

TEST(VirtualTimeTest, WhatTakesTimeHoldsUpItsOwnLoopAndNoOther) {
  VirtualTime time(1);
  const Timepoint begin = Clock::now();
  Loop slow("slow"), quick("quick");
  std::vector<std::string> order;
  slow.Post([&] {
    time.Spend(seconds(10));
    EXPECT_GE(Clock::now(), begin + seconds(10));
    quick.Post([&] { order.push_back("posted after ten seconds"); });
  });
  slow.Post([&] { order.push_back("next"); });
  quick.PostAt(begin + seconds(1), [&] { order.push_back("after a second"); });
  time.RunFor(seconds(20));
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], "after a second");
}

TEST(VirtualTimeTest, AnActorThatWaitsLetsTheOthersWork) {
  VirtualTime time(1);
  Loop waiting("waiting"), other("other");
  bool went_on = false;
  waiting.Post([&] {
    std::promise<void> done;
    const std::shared_future<void> future = done.get_future().share();
    other.PostAt(Clock::now() + seconds(5), [&] { done.set_value(); });
    waiting.Post([&] { EXPECT_TRUE(went_on) << "one piece after the other"; });
    const Timepoint begin = Clock::now();
    Await(future);
    EXPECT_GE(Clock::now(), begin + seconds(5));
    went_on = true;
  });
  time.RunFor(seconds(10));
  EXPECT_TRUE(went_on);
}

TEST(VirtualTimeTest, AFrozenProcessDoesItsWorkLater) {
  VirtualTime time(1);
  const Timepoint begin = Clock::now();
  time.SetProcess(7);
  Loop loop("test");
  Timepoint ran{};
  loop.PostAt(begin + seconds(1), [&] { ran = Clock::now(); });
  time.Freeze(7, begin + seconds(30));
  time.RunFor(seconds(60));
  EXPECT_GE(ran, begin + seconds(30));
}

TEST(VirtualTimeTest, ASeedIsAnOrder) {
  const auto order = [](std::uint64_t seed) {
    VirtualTime time(seed);
    Loop a("a"), b("b");
    std::string seen;
    for (int i = 0; i < 50; ++i) {
      a.Post([&] { seen += 'a'; });
      b.Post([&] { seen += 'b'; });
    }
    time.RunFor(seconds(1));
    return seen;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace swarm
