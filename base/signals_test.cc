#include "base/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>

namespace swarm {
namespace {

TEST(SignalsTest, ASignalIsCountedAndDoesNotEndTheProcess) {
  Signals signals({SIGTERM, SIGINT});
  EXPECT_EQ(signals.count(), 0);
  EXPECT_FALSE(signals.token().stop_requested());
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(signals.Wait(), SIGTERM);
  EXPECT_EQ(signals.count(), 1);
  EXPECT_TRUE(signals.token().stop_requested());
  pollfd news{signals.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&news, 1, 0), 0) << "count() has taken note of it";
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(signals.Wait(), SIGINT);
  EXPECT_EQ(signals.count(), 2);
}

TEST(SignalsTest, AListenerHearsOfEachSignalAlsoOfEarlierOnes) {
  Signals signals({SIGTERM});
  ::kill(::getpid(), SIGTERM);
  signals.Wait();
  std::promise<void> second;
  std::atomic<int> heard = 0;
  {
    const Signals::Listener listener(signals, [&] {
      if (++heard == 2) second.set_value();
    });
    EXPECT_EQ(heard, 1);
    ::kill(::getpid(), SIGTERM);
    second.get_future().wait();
  }
  ASSERT_EQ(signals.count(), 2);
  ::kill(::getpid(), SIGTERM);
  signals.Wait();
  EXPECT_EQ(heard, 2) << "its listener is gone";
}

TEST(SignalsTest, AfterwardsASignalEndsTheProcessAgain) {
  EXPECT_EXIT(
      {
        {
          Signals signals({SIGTERM});
        }
        ::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace swarm
