#include "operator/kube/client/retry.h"

#include <gtest/gtest.h>

#include "operator/kube/timing/timing.h"

namespace swarm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int TriesOf(const TryOutcome& outcome) {
  int tries = 1;
  while (PauseBeforeRetry(outcome, tries, 0)) ++tries;
  return tries;
}

TEST(RetryTest, ABusyServerIsAskedTenTimesAndNeverTooEarly) {
  const TryOutcome busy{Status(), 429, seconds(2), false};
  EXPECT_EQ(TriesOf(busy), kTriesWhenAsked);
  EXPECT_EQ(PauseBeforeRetry(busy, 1, 0.0), seconds(2));
  EXPECT_GT(*PauseBeforeRetry(busy, 1, 0.9), seconds(2));
}

TEST(RetryTest, PausesWithoutRetryAfterDoubleUpToABound) {
  const TryOutcome busy{Status(), 429, {}, true};
  EXPECT_EQ(PauseBeforeRetry(busy, 1, 0), milliseconds(250));
  EXPECT_EQ(PauseBeforeRetry(busy, 2, 0), milliseconds(500));
  EXPECT_EQ(PauseBeforeRetry(busy, 9, 0), seconds(5));
}

TEST(RetryTest, WhatMayHaveHappenedIsNotDoneAgainUnlessTwiceIsOnce) {
  EXPECT_EQ(TriesOf({Status(), 500, {}, true}), kTriesWhenBroken);
  EXPECT_EQ(TriesOf({Unavailable("reset"), 0, {}, true}), kTriesWhenBroken);
  EXPECT_EQ(TriesOf({Status(), 500, {}, false}), 1);
  EXPECT_EQ(TriesOf({Unavailable("reset"), 0, {}, false}), 1);
}

TEST(RetryTest, AnswersThatWillNotChangeAreNotAskedForAgain) {
  for (const int status : {200, 302, 400, 401, 403, 404, 409, 410, 422}) {
    EXPECT_EQ(TriesOf({Status(), status, {}, true}), 1) << status;
  }
  EXPECT_EQ(TriesOf({Cancelled("stop"), 0, {}, true}), 1);
  EXPECT_EQ(TriesOf({ResourceExhausted("large"), 0, {}, true}), 1);
}

TEST(TokenBucketTest, ABurstIsFreeAndThenTheRateHolds) {
  TokenBucket bucket(10, 3);
  const Timepoint now{seconds(100)};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.Reserve(now), Duration::zero());
  EXPECT_NEAR(ToSeconds(bucket.Reserve(now)), 0.1, 1e-9);
  EXPECT_NEAR(ToSeconds(bucket.Reserve(now)), 0.2, 1e-9);
  EXPECT_NEAR(ToSeconds(bucket.Reserve(now + milliseconds(200))), 0.1, 1e-9);
  EXPECT_EQ(bucket.Reserve(now + seconds(10)), Duration::zero());
}

TEST(BackoffTest, DoublesToItsBoundAndIsReset) {
  Backoff backoff({});
  EXPECT_EQ(backoff.Next(0), milliseconds(800));
  EXPECT_EQ(backoff.Next(0), milliseconds(1600));
  for (int i = 0; i < 10; ++i) backoff.Next(0);
  EXPECT_EQ(backoff.Next(0), seconds(30));
  EXPECT_EQ(backoff.Next(0.5), seconds(45));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(0), milliseconds(800));
}

}  // namespace
}  // namespace swarm::kube
