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

TEST(WorkerEndTest, WhoeverWasAskedToLeaveHasLeft) {
  const AfterWorker after = DecideAfterWorker(Ended(0, SIGTERM), true);
  EXPECT_FALSE(after.again);
  EXPECT_EQ(after.code, ExitCode::kOk);
}

}  // namespace
}  // namespace swarm::ctl
