#include "worker/pod/supervise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/exit.h"

namespace swarm::pod {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ObservedProgram Exit(int code) { return {.phase = Phase::kExited, .exit_code = code}; }
ObservedProgram Killed(int signal) { return {.phase = Phase::kExited, .exit_signal = signal}; }

class PodSupervisorTest : public testing::Test {
 protected:
  PodSupervisorTest() { EXPECT_THAT(supervisor_.TakeDue(now_), ElementsAre(0, 1)); }

  Timepoint now_{std::chrono::hours(1)};
  Supervisor supervisor_{2, {}};
};

TEST_F(PodSupervisorTest, WhoCrashesIsStartedAgainLaterEachTime) {
  for (const int delay : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(supervisor_.OnEnded(1, Killed(SIGSEGV), now_),
              "starting it again in " + std::to_string(delay) + " s");
    EXPECT_EQ(supervisor_.NextDue(), now_ + seconds(delay));
    now_ += seconds(delay) - std::chrono::milliseconds(1);
    EXPECT_THAT(supervisor_.TakeDue(now_), IsEmpty());
    now_ += std::chrono::milliseconds(1);
    EXPECT_THAT(supervisor_.TakeDue(now_), ElementsAre(1));
  }
  EXPECT_THAT(supervisor_.OnEnded(1, Killed(SIGSEGV), now_), HasSubstr("counts as lost"));
  EXPECT_EQ(supervisor_.NextDue(), std::nullopt);
  EXPECT_FALSE(supervisor_.HasEnded()) << "the other worker runs";
}

TEST_F(PodSupervisorTest, FailuresAreForgottenAfterAnHour) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(supervisor_.OnEnded(0, Exit(WorkerExit::kFailed), now_), "starting it again in 1 s");
    now_ += minutes(61);
    EXPECT_THAT(supervisor_.TakeDue(now_), ElementsAre(0));
  }
}

TEST_F(PodSupervisorTest, OnlyAnEndThatMayPassIsFollowedByAnotherStart) {
  for (const ObservedProgram& end :
       {Exit(WorkerExit::kFailed), Exit(WorkerExit::kOutOfMemory),
        Exit(WorkerExit::kStorageUnavailable), Killed(SIGKILL), Killed(SIGABRT)}) {
    Supervisor supervisor(1, {});
    (void)supervisor.TakeDue(now_);
    EXPECT_THAT(supervisor.OnEnded(0, end, now_), HasSubstr("starting"));
    EXPECT_FALSE(supervisor.HasEnded());
  }
  for (const ObservedProgram& end :
       {Exit(WorkerExit::kOk), Exit(WorkerExit::kBadUsage), Exit(WorkerExit::kStorageRefused),
        Exit(WorkerExit::kNoTrainer), Killed(SIGTERM)}) {
    Supervisor supervisor(1, {});
    (void)supervisor.TakeDue(now_);
    EXPECT_EQ(supervisor.OnEnded(0, end, now_), "it is not started again");
    EXPECT_TRUE(supervisor.HasEnded());
  }
}

TEST_F(PodSupervisorTest, AfterTheOrderToLeaveNoneIsStarted) {
  supervisor_.OnEnded(0, Exit(WorkerExit::kFailed), now_);
  supervisor_.BeginLeaving();
  EXPECT_EQ(supervisor_.NextDue(), std::nullopt);
  supervisor_.OnEnded(1, Killed(SIGKILL), now_);
  EXPECT_TRUE(supervisor_.HasEnded());
}

TEST_F(PodSupervisorTest, ThePodEndsAsItsWorkersDo) {
  supervisor_.OnEnded(0, Exit(WorkerExit::kBadUsage), now_);
  EXPECT_FALSE(supervisor_.HasEnded());
  supervisor_.OnEnded(1, Exit(WorkerExit::kNoTrainer), now_);
  EXPECT_TRUE(supervisor_.HasEnded());
  EXPECT_EQ(supervisor_.exit_code(), WorkerExit::kNoTrainer);
}

TEST_F(PodSupervisorTest, APodWhoseWorkerWasToldToEndHasSucceeded) {
  supervisor_.OnEnded(0, Exit(WorkerExit::kOk), now_);
  supervisor_.OnEnded(1, Exit(WorkerExit::kBadUsage), now_);
  EXPECT_EQ(supervisor_.exit_code(), WorkerExit::kOk);
}

}  // namespace
}  // namespace swarm::pod
