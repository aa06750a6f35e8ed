#include "ctl/run/supervise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/exit.h"

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Timepoint kNow{minutes(1000)};

ObservedProgram Trainer(Phase phase, int code = 0, int signal = 0) {
  return {"trainer", WorkerRole::kTrainer, phase, code, signal};
}
ObservedProgram Worker(std::uint64_t ordinal, Phase phase, int code = 0, int signal = 0) {
  return {Supervisor::WorkerName(ordinal), WorkerRole::kStage, phase, code, signal};
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
  const std::vector<ObservedProgram> observed = {Trainer(Phase::kRunning),
                                                 Worker(0, Phase::kExited, 0, SIGKILL)};
  const Actions actions = supervisor.Decide(kNow, observed);
  EXPECT_THAT(actions.start_workers, ElementsAre("worker-2"));
  EXPECT_THAT(actions.events,
              ElementsAre("worker-0 was ended by signal 9 (Killed); starting worker-2"));
  EXPECT_THAT(supervisor.Decide(kNow, observed).start_workers, IsEmpty());
  EXPECT_EQ(supervisor.departures(), 1u);
}

TEST(SuperviseTest, AWorkerThatWasToldToLeaveIsNotReplaced) {
  Supervisor supervisor(1, {});
  EXPECT_THAT(supervisor.Decide(kNow, {Worker(0, Phase::kExited, 0)}).start_workers, IsEmpty());
  EXPECT_EQ(supervisor.departures(), 0u);
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

TEST(SuperviseTest, ATrainerMayBeKilledAgainAndAgain) {
  Supervisor supervisor(1, {});
  for (int i = 0; i < 100; ++i) {
    const Actions actions =
        supervisor.Decide(kNow + minutes(i), {Trainer(Phase::kExited, 0, SIGKILL)});
    EXPECT_TRUE(actions.restart_trainer);
    EXPECT_EQ(actions.give_up, "");
  }
}

TEST(SuperviseTest, ATrainerThatWasStoppedForTooLongIsStartedAgain) {
  Supervisor supervisor(1, {});
  const Actions actions =
      supervisor.Decide(kNow, {Trainer(Phase::kExited, WorkerExit::kWasStopped)});
  EXPECT_TRUE(actions.restart_trainer);
  EXPECT_FALSE(actions.trainer_exit_code);
}

TEST(SuperviseTest, ATrainerThatCrashesIsStartedAgainAFewTimesWithinTheWindow) {
  Supervisor supervisor(1, {.trainer_failures_max = 2, .window = minutes(10)});
  const std::vector<ObservedProgram> crashed = {Trainer(Phase::kExited, 0, SIGSEGV)};
  EXPECT_TRUE(supervisor.Decide(kNow, crashed).restart_trainer);
  EXPECT_TRUE(supervisor.Decide(kNow, crashed).restart_trainer);
  EXPECT_TRUE(supervisor.Decide(kNow + minutes(11), crashed).restart_trainer);
  EXPECT_TRUE(supervisor.Decide(kNow + minutes(11), crashed).restart_trainer);
  const Actions last = supervisor.Decide(kNow + minutes(11), crashed);
  EXPECT_FALSE(last.restart_trainer);
  EXPECT_THAT(last.give_up, HasSubstr("the trainer was ended by signal 11"));
}

/// The trainer runs; Decide is called each 200 ms until `end`. The time of the kill, if any.
std::optional<Timepoint> KilledForSilence(Supervisor& supervisor, Timepoint begin, Timepoint end,
                                          std::optional<Timepoint> heard) {
  for (Timepoint now = begin; now < end; now += milliseconds(200)) {
    if (supervisor.Decide(now, {Trainer(Phase::kRunning)}, heard).kill_trainer) return now;
  }
  return std::nullopt;
}

TEST(SuperviseTest, ATrainerThatFallsSilentIsKilledOnceAndStartedAgain) {
  Supervisor supervisor(1, {});
  const auto killed = KilledForSilence(supervisor, kNow, kNow + minutes(1), kNow + seconds(5));
  ASSERT_TRUE(killed);
  EXPECT_NEAR(ToSeconds(*killed - kNow), 15, 0.5);
  EXPECT_FALSE(KilledForSilence(supervisor, *killed + milliseconds(200), *killed + minutes(1),
                                kNow + seconds(5)));
  const Timepoint ended = *killed + minutes(1);
  EXPECT_TRUE(supervisor.Decide(ended, {Trainer(Phase::kExited, 0, SIGKILL)}).restart_trainer);
  // The new trainer has more time for its first answer. The answers of the old trainer do not
  // count.
  const auto again = KilledForSilence(supervisor, ended, ended + minutes(5), kNow + seconds(5));
  ASSERT_TRUE(again);
  EXPECT_NEAR(ToSeconds(*again - ended), 60, 0.5);
}

TEST(SuperviseTest, WhoWasStoppedItselfDoesNotTakeItForTheTrainersSilence) {
  Supervisor supervisor(1, {});
  EXPECT_FALSE(KilledForSilence(supervisor, kNow, kNow + seconds(5), kNow));
  EXPECT_FALSE(supervisor.Decide(kNow + minutes(5), {Trainer(Phase::kRunning)}, kNow).kill_trainer);
  EXPECT_TRUE(KilledForSilence(supervisor, kNow + minutes(5), kNow + minutes(6), kNow));
}

TEST(SuperviseTest, ATrainerThatNobodyAsksIsNotSilent) {
  Supervisor supervisor(1, {});
  EXPECT_FALSE(KilledForSilence(supervisor, kNow, kNow + minutes(5), {}));
}

TEST(SuperviseTest, AReplacementComesAfterItsDelay) {
  Supervisor supervisor(2, {.restart_delay = milliseconds(1500)});
  const std::vector<ObservedProgram> observed = {Worker(0, Phase::kExited, 0, SIGKILL)};
  const Actions first = supervisor.Decide(kNow, observed);
  EXPECT_THAT(first.start_workers, IsEmpty());
  EXPECT_THAT(first.events,
              ElementsAre("worker-0 was ended by signal 9 (Killed); starting worker-2 in 1.5 s"));
  EXPECT_THAT(supervisor.Decide(kNow + milliseconds(1400), observed).start_workers, IsEmpty());
  EXPECT_THAT(supervisor.Decide(kNow + milliseconds(1500), observed).start_workers,
              ElementsAre("worker-2"));
  EXPECT_THAT(supervisor.Decide(kNow + milliseconds(1600), observed).start_workers, IsEmpty());
}

TEST(SuperviseTest, NoReplacementComesWhereNoneIsWanted) {
  Supervisor supervisor(2, {.restart = false});
  const Actions actions = supervisor.Decide(kNow, {Worker(0, Phase::kExited, 0, SIGKILL)});
  EXPECT_THAT(actions.start_workers, IsEmpty());
  EXPECT_THAT(actions.events,
              ElementsAre("worker-0 was ended by signal 9 (Killed); it is not replaced"));
  EXPECT_EQ(supervisor.departures(), 1u);
}

TEST(SuperviseTest, WhoJoinsHasANameOfItsOwn) {
  Supervisor supervisor(2, {});
  EXPECT_EQ(supervisor.NextWorker(), "worker-2");
  EXPECT_THAT(supervisor.Decide(kNow, {Worker(0, Phase::kExited, 1)}).start_workers,
              ElementsAre("worker-3"));
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

TEST(SuperviseTest, AWorkerThatTheStorageRefusesIsNotReplaced) {
  Supervisor supervisor(1, {});
  const Actions actions =
      supervisor.Decide(kNow, {Worker(0, Phase::kExited, WorkerExit::kStorageRefused)});
  EXPECT_THAT(actions.start_workers, IsEmpty());
  EXPECT_THAT(actions.give_up, HasSubstr("a replacement would fail in the same way"));
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
