#include "base/web/broadcast.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace swarm::web {
namespace {

using std::chrono::seconds;

TEST(BroadcastTest, AViewerGetsItsFirstTextAndWhatIsSentAfterIt) {
  Broadcast broadcast({});
  broadcast.Send("too early");
  const auto viewer = broadcast.Join("state");
  broadcast.Send("news");
  EXPECT_EQ(viewer->Take(seconds(30)), "state");
  EXPECT_EQ(viewer->Take(seconds(30)), "news");
  EXPECT_EQ(viewer->Take(Duration::zero()), "") << "nothing has come";
}

TEST(BroadcastTest, AViewerForWhomTooMuchWaitsIsDroppedAndNoOtherIs) {
  Broadcast broadcast({.viewers = 2, .waiting_bytes = 10});
  const auto slow = broadcast.Join("12345");
  const auto quick = broadcast.Join("12345");
  ASSERT_EQ(quick->Take(seconds(30)), "12345");
  broadcast.Send("67890");
  EXPECT_EQ(slow->Take(seconds(30)), "12345") << "ten bytes may wait";
  broadcast.Send("abcde");
  ASSERT_EQ(quick->Take(seconds(30)), "67890");
  ASSERT_EQ(quick->Take(seconds(30)), "abcde");
  broadcast.Send("f");
  EXPECT_EQ(slow->Take(seconds(30)), std::nullopt) << "eleven may not";
  EXPECT_EQ(quick->Take(seconds(30)), "f");
}

TEST(BroadcastTest, ADroppedViewerKeepsNothing) {
  Broadcast broadcast({.viewers = 1, .waiting_bytes = 10});
  const auto slow = broadcast.Join("");
  for (int i = 0; i < 3; ++i) broadcast.Send("0123456789");
  EXPECT_EQ(slow->Take(seconds(30)), std::nullopt);
}

TEST(BroadcastTest, ThereAreNoMoreViewersThanMayBe) {
  Broadcast broadcast({.viewers = 2, .waiting_bytes = 10});
  auto first = broadcast.Join("");
  const auto second = broadcast.Join("");
  EXPECT_EQ(broadcast.Join(""), nullptr);
  EXPECT_EQ(broadcast.viewers(), 2u);
  first = nullptr;
  EXPECT_NE(broadcast.Join(""), nullptr) << "its place is free again";
}

TEST(BroadcastTest, AtTheEndAViewerStillGetsWhatWaits) {
  std::shared_ptr<Broadcast::Viewer> viewer;
  {
    Broadcast broadcast({});
    viewer = broadcast.Join("state");
    broadcast.Send("the last");
    broadcast.Close();
    EXPECT_EQ(broadcast.Join(""), nullptr);
  }
  EXPECT_EQ(viewer->Take(seconds(30)), "state");
  EXPECT_EQ(viewer->Take(seconds(30)), "the last");
  EXPECT_EQ(viewer->Take(seconds(30)), std::nullopt);
}

TEST(BroadcastTest, ManyViewersTakeWhileOthersComeAndGo) {
  Broadcast broadcast({.viewers = 8, .waiting_bytes = 1u << 20});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([viewer = broadcast.Join("0")] {
      int expected = 0;
      while (const auto text = viewer->Take(seconds(30))) {
        EXPECT_EQ(*text, std::to_string(expected++));
      }
      EXPECT_EQ(expected, 1001);
    });
  }
  for (int i = 1; i <= 1000; ++i) {
    const auto passing = broadcast.Join("");
    broadcast.Send(std::to_string(i));
  }
  broadcast.Close();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace swarm::web
