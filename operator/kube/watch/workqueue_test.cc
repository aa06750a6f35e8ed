#include "operator/kube/watch/workqueue.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Timepoint kStart{std::chrono::hours(1)};

TEST(WorkQueueRulesTest, AKeyThatIsAddedTwiceIsTakenOnce) {
  WorkQueueRules queue({});
  queue.Add("a", kStart);
  queue.Add("b", kStart);
  queue.Add("a", kStart);
  EXPECT_EQ(queue.Take(kStart), "a");
  EXPECT_EQ(queue.Take(kStart), "b");
  EXPECT_EQ(queue.Take(kStart), std::nullopt);
}

TEST(WorkQueueRulesTest, AKeyAddedWhileItIsWorkedOnComesBackWhenThatIsDone) {
  WorkQueueRules queue({});
  queue.Add("a", kStart);
  EXPECT_EQ(queue.Take(kStart), "a");
  queue.Add("a", kStart);
  queue.Add("a", kStart);
  EXPECT_EQ(queue.Take(kStart), std::nullopt);
  queue.Done("a", kStart);
  EXPECT_EQ(queue.Take(kStart), "a");
  queue.Done("a", kStart);
  EXPECT_EQ(queue.Take(kStart), std::nullopt);
}

TEST(WorkQueueRulesTest, AKeyThatRestsIsTakenAfterwardsForAllThatCameMeanwhile) {
  WorkQueueRules queue({});
  queue.Add("large", kStart);
  EXPECT_EQ(queue.Take(kStart), "large");
  queue.Done("large", kStart, milliseconds(60));
  queue.Add("large", kStart + milliseconds(10));
  queue.AddAt("large", kStart + milliseconds(20));
  queue.Add("small", kStart + milliseconds(30));
  EXPECT_EQ(queue.Take(kStart + milliseconds(30)), "small");
  EXPECT_EQ(queue.Take(kStart + milliseconds(59)), std::nullopt);
  EXPECT_EQ(queue.NextDue(), kStart + milliseconds(60));
  EXPECT_EQ(queue.Take(kStart + milliseconds(60)), "large");
  queue.Done("large", kStart + milliseconds(61), milliseconds(60));
  EXPECT_EQ(queue.Take(kStart + milliseconds(200)), std::nullopt) << "nothing came for it";
  queue.Add("large", kStart + milliseconds(200));
  EXPECT_EQ(queue.Take(kStart + milliseconds(200)), "large") << "it has rested";
}

TEST(WorkQueueRulesTest, ADelayedKeyWaitsForTheEarliestOfItsTimes) {
  WorkQueueRules queue({});
  queue.AddAt("a", kStart + seconds(10));
  queue.AddAt("a", kStart + seconds(5));
  queue.AddAt("a", kStart + seconds(20));
  EXPECT_EQ(queue.NextDue(), kStart + seconds(5));
  EXPECT_EQ(queue.Take(kStart + seconds(4)), std::nullopt);
  EXPECT_EQ(queue.Take(kStart + seconds(5)), "a");
  queue.Done("a", kStart + seconds(5));
  EXPECT_EQ(queue.Take(kStart + seconds(60)), std::nullopt);
}

TEST(WorkQueueRulesTest, FailuresOfAKeyDoubleItsPauseUntilItDoesWell) {
  WorkQueueRules queue({});
  Timepoint now = kStart;
  const auto pause = [&] {
    queue.AddRateLimited("a", now);
    const Duration until = *queue.NextDue() - now;
    now = *queue.NextDue();
    EXPECT_EQ(queue.Take(now), "a");
    queue.Done("a", now);
    return until;
  };
  EXPECT_EQ(pause(), milliseconds(5));
  EXPECT_EQ(pause(), milliseconds(10));
  EXPECT_EQ(pause(), milliseconds(20));
  for (int i = 0; i < 60; ++i) pause();
  EXPECT_EQ(pause(), seconds(1000));
  queue.Forget("a");
  EXPECT_EQ(queue.Failures("a"), 0);
  EXPECT_EQ(pause(), milliseconds(5));
}

TEST(WorkQueueRulesTest, ManyFailuresTogetherAreSpreadByTheCommonRate) {
  WorkQueueRules queue({.adds_per_second = 10, .burst = 2});
  for (const char* key : {"a", "b", "c", "d"}) queue.AddRateLimited(key, kStart);
  EXPECT_EQ(queue.Take(kStart + milliseconds(5)), "a");
  EXPECT_EQ(queue.Take(kStart + milliseconds(5)), "b");
  EXPECT_EQ(queue.Take(kStart + milliseconds(99)), std::nullopt);
  EXPECT_EQ(queue.Take(kStart + milliseconds(101)), "c");
  EXPECT_EQ(queue.Take(kStart + milliseconds(201)), "d");
}

TEST(WorkQueueRulesTest, TheReadingSaysWhoWaitsAndWhoIsSlow) {
  WorkQueueRules queue({});
  queue.Add("slow", kStart);
  queue.Add("waits", kStart);
  queue.Take(kStart + seconds(1));
  const auto reading = queue.Read(kStart + seconds(31));
  EXPECT_EQ(reading.depth, 1u);
  EXPECT_EQ(reading.adds, 2u);
  EXPECT_DOUBLE_EQ(reading.longest_running_seconds, 30);
  EXPECT_DOUBLE_EQ(reading.unfinished_seconds, 30);
  EXPECT_DOUBLE_EQ(reading.queue_seconds.sum, 1);
}

TEST(WorkQueueRulesTest, NoKeyIsEverLostOrHeldByTwo) {
  // Random adds, takes and dones, compared with a set. Some keys rest, until the next round.
  Rng dice(1);
  WorkQueueRules queue({});
  Timepoint now = kStart;
  std::map<std::string, int> added_since_taken;
  std::set<std::string> held;
  for (int i = 0; i < 20000; ++i) {
    const std::string key(1, static_cast<char>('a' + dice.Below(6)));
    now += milliseconds(1);
    switch (dice.Below(3)) {
      case 0:
        queue.Add(key, now);
        ++added_since_taken[key];
        break;
      case 1:
        if (const auto taken = queue.Take(now)) {
          EXPECT_TRUE(held.insert(*taken).second) << *taken << " is held by two";
          EXPECT_GT(added_since_taken[*taken], 0);
          added_since_taken[*taken] = 0;
        } else {
          for (const auto& [waiting, times] : added_since_taken) {
            EXPECT_TRUE(times == 0 || held.contains(waiting)) << waiting << " is lost";
          }
        }
        break;
      case 2:
        if (held.erase(key) > 0) queue.Done(key, now, milliseconds(dice.Below(2)));
        break;
    }
  }
}

TEST(WorkQueueTest, SeveralThreadsTakeEachKeyOnce) {
  WorkQueue queue({}, SystemTiming());
  constexpr int kKeys = 200;
  std::latch all(kKeys);
  std::mutex mutex;
  std::map<std::string, int> times;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 4; ++i) {
      workers.emplace_back([&](std::stop_token stop) {
        while (const auto key = queue.Get(stop)) {
          {
            const std::lock_guard lock(mutex);
            ++times[*key];
          }
          queue.Done(*key);
          all.count_down();
        }
      });
    }
    for (int i = 0; i < kKeys; ++i) queue.AddAfter("key-" + std::to_string(i), milliseconds(i % 3));
    all.wait();
  }
  EXPECT_EQ(times.size(), static_cast<std::size_t>(kKeys));
  for (const auto& [key, count] : times) EXPECT_EQ(count, 1) << key;
}

TEST(WorkQueueTest, AStopEndsTheWait) {
  WorkQueue queue({}, SystemTiming());
  std::jthread waiter([&](std::stop_token stop) { EXPECT_EQ(queue.Get(stop), std::nullopt); });
}

}  // namespace
}  // namespace swarm::kube
