#include "base/loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace swarm {
namespace {

TEST(LoopTest, RunsClosuresInTheOrderOfPostingAndFinishesThemBeforeItStops) {
  std::vector<int> seen;
  Loop loop("test");
  for (int i = 0; i < 1000; ++i) loop.Post([&seen, i] { seen.push_back(i); });
  loop.Stop();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[i], i);
}

TEST(LoopTest, TimedClosuresRunInTheOrderOfTheirTimes) {
  std::promise<std::vector<int>> done;
  std::vector<int> seen;
  Loop loop("test");
  const Timepoint now = Clock::now();
  loop.PostAt(now + std::chrono::milliseconds(20),
              [&] { seen.push_back(2), done.set_value(seen); });
  loop.PostAt(now + std::chrono::milliseconds(1), [&] { seen.push_back(1); });
  EXPECT_EQ(done.get_future().get(), (std::vector<int>{1, 2}));
}

TEST(LoopTest, WhatIsGatheredIsSentWhenNothingElseIsLeftToDo) {
  std::vector<int> gathered, sent;
  std::promise<void> gate;
  Loop loop("test",
            [&] { sent.insert(sent.end(), gathered.begin(), gathered.end()), gathered.clear(); });
  loop.Post([opened = gate.get_future().share()] { opened.wait(); });
  for (int i = 0; i < 3; ++i) loop.Post([&gathered, i] { gathered.push_back(i); });
  loop.PostAt(Clock::now(), [] {});  // a timed closure counts as work too
  gate.set_value();
  loop.Stop();
  EXPECT_EQ(sent, (std::vector<int>{0, 1, 2}));
}

TEST(LoopTest, AFullQueueHoldsThePosterBackUntilThereIsRoom) {
  Loop loop("test", nullptr, 1);
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<int> ran{0};
  loop.Post([opened, &ran] { opened.wait(), ++ran; });
  std::thread poster([&] {
    for (int i = 0; i < 10; ++i) loop.Post([&ran] { ++ran; });
  });
  EXPECT_LE(loop.depth(), 1u);
  gate.set_value();
  poster.join();
  loop.Stop();
  EXPECT_EQ(ran, 11);
}

}  // namespace
}  // namespace swarm
