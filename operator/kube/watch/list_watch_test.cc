// The decisions of a reflector, as stories of what a server may do to it.
#include "operator/kube/watch/list_watch.h"

#include <gtest/gtest.h>

#include "operator/kube/testing/fake_timing.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = ListWatchStep::Kind;

class ListWatchTest : public ::testing::Test {
 protected:
  void Listed(const std::string& version) { policy_.OnListed(version); }
  void WatchEnds(const WatchEnd& end, Duration after = seconds(300)) {
    policy_.OnWatchBegun(timing_.Now());
    timing_.Advance(after);
    policy_.OnWatchEnded(end, timing_.Now());
  }
  void ListFails(StatusCode code) { policy_.OnListFailed(Status(code, "because"), timing_.Now()); }
  const ListWatchStep& next() { return policy_.next(); }

  static WatchEnd Refused(int code) {
    return {WatchEnd::Kind::kRefused, Unavailable("refused"), code, {}};
  }
  static WatchEnd Broken(StatusCode code = StatusCode::kUnavailable) {
    return {WatchEnd::Kind::kBroken, Status(code, "broken"), 0, {}};
  }
  static WatchEnd Expired() {
    return {WatchEnd::Kind::kExpired, Status(StatusCode::kOutOfRange, "410"), 410, {}};
  }

  FakeTiming timing_;
  ListWatchPolicy policy_{timing_};
};

TEST_F(ListWatchTest, TheFirstListMayComeFromTheServersCache) {
  EXPECT_EQ(next().kind, Kind::kList);
  EXPECT_EQ(next().resource_version, "0");
}

TEST_F(ListWatchTest, AWatchGoesOnWhereTheListWasAndLastsFiveToTenMinutes) {
  Listed("100");
  EXPECT_EQ(next().kind, Kind::kWatch);
  EXPECT_EQ(next().resource_version, "100");
  EXPECT_GE(next().timeout, seconds(300));
  EXPECT_LE(next().timeout, seconds(600));
}

TEST_F(ListWatchTest, AfterAnOrderlyEndTheNextWatchFollowsAtOnceFromTheLastBookmark) {
  Listed("100");
  policy_.OnEvent("150");
  WatchEnds({});
  EXPECT_EQ(next().kind, Kind::kWatch);
  EXPECT_EQ(next().resource_version, "150");
  EXPECT_EQ(next().pause, Duration::zero());
}

TEST_F(ListWatchTest, AnExpiredVersionIsListedNotOlderThanWhatIsKnown) {
  Listed("100");
  WatchEnds(Expired());
  EXPECT_EQ(next().kind, Kind::kList);
  EXPECT_EQ(next().resource_version, "100");
  EXPECT_GT(next().pause, Duration::zero());
  ListFails(StatusCode::kOutOfRange);
  EXPECT_EQ(next().resource_version, "");
}

TEST_F(ListWatchTest, AFailedListIsTriedAgainAndForgetsNothing) {
  for (int i = 0; i < 3; ++i) ListFails(StatusCode::kDeadlineExceeded);
  EXPECT_EQ(next().kind, Kind::kList);
  EXPECT_EQ(next().resource_version, "0");
  EXPECT_EQ(next().pause, milliseconds(3200));
}

TEST_F(ListWatchTest, WatchesThatCloseAtOnceAndSayNothingEndInANewestList) {
  Listed("100");
  for (int i = 0; i < 2; ++i) {
    WatchEnds({}, milliseconds(10));
    EXPECT_EQ(next().kind, Kind::kWatch);
    EXPECT_GT(next().pause, Duration::zero());
  }
  WatchEnds({}, milliseconds(10));
  EXPECT_EQ(next().kind, Kind::kList);
  EXPECT_EQ(next().resource_version, "");
}

TEST_F(ListWatchTest, AQuickEndAfterAnEventIsNoSignOfALostVersion) {
  Listed("100");
  for (int i = 0; i < 10; ++i) {
    policy_.OnWatchBegun(timing_.Now());
    policy_.OnEvent("10" + std::to_string(i));
    policy_.OnWatchEnded({}, timing_.Now());
    EXPECT_EQ(next().kind, Kind::kWatch);
  }
  EXPECT_EQ(next().pause, seconds(30));
}

TEST_F(ListWatchTest, ABusyServerKeepsItsVersionAndItsRetryAfter) {
  Listed("100");
  WatchEnd busy = Refused(429);
  busy.retry_after = seconds(20);
  WatchEnds(busy, milliseconds(1));
  EXPECT_EQ(next().kind, Kind::kWatch);
  EXPECT_EQ(next().resource_version, "100");
  EXPECT_EQ(next().pause, seconds(20));
}

TEST_F(ListWatchTest, ABrokenConnectionIsWatchedAgainFromTheSameVersion) {
  Listed("100");
  for (int i = 0; i < 20; ++i) WatchEnds(Broken(), milliseconds(1));
  EXPECT_EQ(next().kind, Kind::kWatch);
  EXPECT_EQ(next().resource_version, "100");
}

TEST_F(ListWatchTest, ServerErrorsAreBorneForAWhileAndThenListed) {
  Listed("100");
  for (int i = 0; i < 4; ++i) {
    WatchEnds(Refused(500), milliseconds(1));
    EXPECT_EQ(next().kind, Kind::kWatch);
  }
  WatchEnds(Refused(500), milliseconds(1));
  EXPECT_EQ(next().kind, Kind::kList);
}

TEST_F(ListWatchTest, AWatchThatIsForbiddenIsListedSoThatTheErrorIsSeen) {
  Listed("100");
  WatchEnds(Refused(403), milliseconds(1));
  EXPECT_EQ(next().kind, Kind::kList);
  EXPECT_EQ(next().resource_version, "100");
}

TEST_F(ListWatchTest, WhatCannotBeReadIsNotAskedForAgain) {
  for (const StatusCode code : {StatusCode::kDataLoss, StatusCode::kResourceExhausted}) {
    Listed("100");
    WatchEnds(Broken(code));
    EXPECT_EQ(next().kind, Kind::kList);
  }
}

TEST_F(ListWatchTest, PausesGrowToHalfAMinuteAndAreForgottenAfterTwoHealthyOnes) {
  Listed("100");
  Duration last{};
  for (int i = 0; i < 10; ++i) {
    WatchEnds(Broken(), milliseconds(1));
    EXPECT_GE(next().pause, last);
    last = next().pause;
  }
  EXPECT_EQ(last, seconds(30));
  WatchEnds(Broken(), minutes(3));
  EXPECT_EQ(next().pause, milliseconds(800));
}

}  // namespace
}  // namespace swarm::kube
