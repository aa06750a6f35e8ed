#include "ctl/enrol/worker_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/exit.h"

namespace swarm::ctl {
namespace {

using testing::HasSubstr;

ObservedProgram Ended(int code, int signal = 0) {
  return {"joined-0", WorkerRole::kStage, Phase::kExited, code, signal};
}

TEST(WorkerEndTest, AWorkerThatWasDismissedEndsTheCommand) {
  const AfterWorker after = DecideAfterWorker(Ended(WorkerExit::kOk), false);
  EXPECT_FALSE(after.again);
  EXPECT_EQ(after.code, ExitCode::kOk);
  EXPECT_THAT(after.words, HasSubstr("home has dismissed joined-0"));
}

TEST(WorkerEndTest, AWorkerThatWasKilledOrHasFailedStartsAgain) {
  EXPECT_TRUE(DecideAfterWorker(Ended(0, SIGKILL), false).again);
  EXPECT_TRUE(DecideAfterWorker(Ended(WorkerExit::kFailed), false).again);
  EXPECT_TRUE(DecideAfterWorker(Ended(WorkerExit::kStorageUnavailable), false).again);
  EXPECT_THAT(DecideAfterWorker(Ended(0, SIGKILL), false).words, HasSubstr("Killed"));
}

TEST(WorkerEndTest, WhatWouldFailAgainIsNotTriedAgain) {
  for (const int code : {WorkerExit::kBadUsage, WorkerExit::kStorageRefused}) {
    const AfterWorker after = DecideAfterWorker(Ended(code), false);
    EXPECT_FALSE(after.again);
    EXPECT_EQ(after.code, ExitCode::kBadUsage);
  }
  EXPECT_EQ(DecideAfterWorker(Ended(WorkerExit::kNoTrainer), false).code, ExitCode::kFailed);
}

TEST(WorkerEndTest, AWorkerWithoutATrainerStartsAgainWhileHomeIsLost) {
  EXPECT_TRUE(DecideAfterWorker(Ended(WorkerExit::kNoTrainer), false, /*home_lost=*/true).again);
  EXPECT_FALSE(DecideAfterWorker(Ended(WorkerExit::kNoTrainer), false, /*home_lost=*/false).again);
}

TEST(WorkerEndTest, AHomeThatDoesNotAnswerIsAskedAgain) {
  for (const Status& why : {Unavailable("gone"), DeadlineExceeded("gone"),
                            ResourceExhausted("too many failed attempts to join from 10.0.0.7")}) {
    EXPECT_TRUE(DecideAfterRefusal(why, "joined-0", false).again) << why.ToString();
    EXPECT_TRUE(DecideAfterRefusal(why, "joined-0", true).again) << why.ToString();
  }
}

TEST(WorkerEndTest, AMachineThatIsNotWantedEndsAndSaysWhetherAnotherTokenHelps) {
  const Status out = PermissionDenied("joined-0 was revoked by the owner of the job");
  const AfterRefusal revoked = DecideAfterRefusal(out, "joined-0", false);
  EXPECT_FALSE(revoked.again);
  EXPECT_EQ(revoked.code, ExitCode::kFailed);
  EXPECT_THAT(revoked.words, HasSubstr("home refuses joined-0: joined-0 was revoked"));

  const Status used_up = PermissionDenied("the token 5f is used up; ask for another one");
  const AfterRefusal late = DecideAfterRefusal(used_up, "joined-0", true);
  EXPECT_FALSE(late.again);
  EXPECT_EQ(late.code, ExitCode::kBadUsage);
  EXPECT_THAT(late.words, HasSubstr("the certificate of joined-0 has ended"));
  EXPECT_THAT(late.words, HasSubstr("ask for another one"));
}

TEST(WorkerEndTest, WhoeverWasAskedToLeaveHasLeft) {
  const AfterWorker after = DecideAfterWorker(Ended(0, SIGTERM), true);
  EXPECT_FALSE(after.again);
  EXPECT_EQ(after.code, ExitCode::kOk);
}

}  // namespace
}  // namespace swarm::ctl
