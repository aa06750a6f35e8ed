#include "ctl/supervise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace swarm::ctl {
namespace {

using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Timepoint kNow{minutes(1000)};

ObservedWorker Trainer(Phase phase, int code = 0, int signal = 0) {
  return {"trainer", Role::kTrainer, phase, code, signal};
}
ObservedWorker Worker(std::uint64_t ordinal, Phase phase, int code = 0, int signal = 0) {
  return {Supervisor::WorkerName(ordinal), Role::kStage, phase, code, signal};
}

TEST(SuperviseTest, WhileAllRunThereIsNothingToDo) {
  Supervisor supervisor(2, {});
  const Actions actions =
      supervisor.Decide(kNow, {Trainer(Phase::kRunning), Worker(0, Phase::kRunning)});
  EXPECT_THAT(actions.start_workers, IsEmpty());
  EXPECT_FALSE(actions.restart_trainer);
  EXPECT_FALSE(actions.trainer_exit_code);
  EXPECT_EQ(actions.give_up, "");
}

TEST(SuperviseTest, ALostWorkerIsReplacedOnceUnderANewName) {
  Supervisor supervisor(2, {});
  const std::vector<ObservedWorker> observed = {Trainer(Phase::kRunning),
                                                Worker(0, Phase::kExited, 0, SIGKILL)};
  const Actions actions = supervisor.Decide(kNow, observed);
  EXPECT_THAT(actions.start_workers, ElementsAre("worker-2"));
  EXPECT_THAT(actions.events,
              ElementsAre("worker-0 was ended by signal 9 (Killed); starting worker-2"));
  EXPECT_THAT(supervisor.Decide(kNow, observed).start_workers, IsEmpty());
  EXPECT_EQ(supervisor.losses(), 1u);
}

TEST(SuperviseTest, AWorkerThatWasToldToLeaveIsNotReplaced) {
  Supervisor supervisor(1, {});
  EXPECT_THAT(supervisor.Decide(kNow, {Worker(0, Phase::kExited, 0)}).start_workers, IsEmpty());
  EXPECT_EQ(supervisor.losses(), 0u);
}

TEST(SuperviseTest, GivesUpWhenWorkersAreLostFasterThanTheLimit) {
  Supervisor supervisor(1, {.failures_max = 3, .window = minutes(10)});
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(supervisor.Decide(kNow, {Worker(i, Phase::kExited, 1)}).give_up, "");
  }
  EXPECT_THAT(supervisor.Decide(kNow, {Worker(3, Phase::kExited, 1)}).give_up,
              HasSubstr("worker-3 ended with exit code 1, the last of 4 lost in 600 s"));
}

TEST(SuperviseTest, WorkersThatAreKilledDoNotCountAsFailures) {
  Supervisor supervisor(1, {.failures_max = 1, .kills_max = 20});
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(supervisor.Decide(kNow, {Worker(i, Phase::kExited, 0, SIGKILL)}).give_up, "");
  }
  EXPECT_NE(supervisor.Decide(kNow, {Worker(20, Phase::kExited, 0, SIGKILL)}).give_up, "");
}

TEST(SuperviseTest, LossesThatAreLongPastDoNotCount) {
  Supervisor supervisor(1, {.failures_max = 1, .window = minutes(10)});
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Actions actions =
        supervisor.Decide(kNow + minutes(11) * i, {Worker(i, Phase::kExited, 1)});
    EXPECT_EQ(actions.give_up, "");
    EXPECT_EQ(actions.start_workers.size(), 1u);
  }
}

TEST(SuperviseTest, AKilledTrainerIsStartedAgainAFewTimes) {
  Supervisor supervisor(1, {.trainer_restarts_max = 2});
  const std::vector<ObservedWorker> killed = {Trainer(Phase::kExited, 0, SIGKILL)};
  EXPECT_TRUE(supervisor.Decide(kNow, killed).restart_trainer);
  EXPECT_TRUE(supervisor.Decide(kNow, killed).restart_trainer);
  const Actions last = supervisor.Decide(kNow, killed);
  EXPECT_FALSE(last.restart_trainer);
  EXPECT_EQ(last.give_up, "the trainer was ended by signal 9 (Killed)");
}

TEST(SuperviseTest, ATrainerThatEndsByItselfEndsTheJob) {
  Supervisor supervisor(1, {});
  EXPECT_EQ(supervisor.Decide(kNow, {Trainer(Phase::kExited, 3)}).trainer_exit_code, 3);
}

TEST(SuperviseTest, AWorkerThatWasStartedWronglyIsNotReplaced) {
  Supervisor supervisor(1, {});
  const Actions actions = supervisor.Decide(kNow, {Worker(0, Phase::kExited, 2)});
  EXPECT_THAT(actions.start_workers, IsEmpty());
  EXPECT_THAT(actions.give_up, HasSubstr("worker-0 ended with exit code 2"));
  EXPECT_EQ(actions.give_up_because_of, "worker-0");
}

TEST(SuperviseTest, NothingIsReplacedOnceTheJobIsStopping) {
  Supervisor supervisor(1, {});
  supervisor.BeginStopping();
  const Actions actions =
      supervisor.Decide(kNow, {Trainer(Phase::kExited, 0, SIGTERM), Worker(0, Phase::kExited, 1)});
  EXPECT_THAT(actions.start_workers, IsEmpty());
  EXPECT_FALSE(actions.restart_trainer);
  EXPECT_NE(actions.give_up, "");
}

}  // namespace
}  // namespace swarm::ctl
