// Programs that are killed, stopped, told to leave and added during the run: the run computes what
// the undisturbed run computes, to the last byte, and no program outlives it.
#include "tests/system/system_test.h"
#include "worker/protocol/coordinator/options.h"

namespace swarm::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SystemFaultsTest : public SystemTest {
 protected:
  SystemFaultsTest() {
    job_.spec.model.config.num_hidden_layers = 2;
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.maxSteps = kNeverReached;
    job_.spec.pipeline.stages = 2;
    job_.spec.checkpoint.intervalSteps = 20;
    job_.spec.workers = {.replicas = 4, .minReplicas = 2};
  }

  /// Waits until the run is beyond its first checkpoint.
  void StartAndReachACheckpoint(const std::string& layout = "0=2,1=2",
                                const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"--workers", layout, "--restart-delay", "0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    StartRun(std::move(arguments));
    AwaitEvent("CheckpointWritten");
    AwaitMoreSteps();
  }
  void AwaitLossOf(const std::string& worker) {
    Await("the loss of " + worker, [&] {
      const auto lost = Named("WorkerLost");
      return std::find(lost.begin(), lost.end(), worker) != lost.end();
    });
  }
  /// Waits until the worker serves a stage, for the `times`-th time.
  void AwaitJoinOf(const std::string& worker, std::ptrdiff_t times = 1) {
    Await("that " + worker + " serves", [&] {
      const auto joined = Named("WorkerJoined");
      return std::count(joined.begin(), joined.end(), worker) >= times;
    });
  }
  /// It came back with the state that it had, and replayed the steps since.
  void ExpectThatItCopiedNothing(const std::string& worker) {
    std::vector<std::string> texts;
    for (const auto& event : Events("WorkerJoining")) texts.push_back(event.at("text"));
    EXPECT_THAT(texts, Contains(testing::ContainsRegex(
                           worker + " comes back to stage . with version [0-9]*: it replays "
                                    "[1-9][0-9]* steps and copies no state")));
    EXPECT_THAT(texts, Not(Contains(HasSubstr(worker + " copies"))));
    const std::string log = Content("out/workers/" + worker + ".log");
    EXPECT_THAT(log, HasSubstr("going on with its own state of stage"));
    EXPECT_THAT(log, Not(HasSubstr("joining stage")));
  }
  /// Ends the run after a few steps more and compares.
  void ExpectThatNothingWasLost() {
    AwaitMoreSteps();
    Signal("swarmctl", SIGTERM);
    ASSERT_EQ(ExitCode(), 0) << Output();
    EXPECT_THAT(Programs(), IsEmpty());
    job_.spec.training.maxSteps = Losses(Out()).size();
    ExpectReferenceBits();
  }
};

TEST_F(SystemFaultsTest, AKilledWorkerIsReplacedAndNoStepIsRepeated) {
  StartAndReachACheckpoint();
  Signal("worker-1", SIGKILL);
  AwaitLossOf("worker-1");
  AwaitJoinOf("worker-4");
  EXPECT_THAT(Output(), HasSubstr("worker-1 was ended by signal 9 (Killed); starting worker-4"));
  ExpectThatNothingWasLost();
  EXPECT_THAT(Events("StageLost"), IsEmpty());
  EXPECT_THAT(Output(), HasSubstr("workers lost: 1"));
}

TEST_F(SystemFaultsTest, AKilledTrainerIsReplacedAndTheStepGoesOn) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGKILL);
  AwaitEvent("TookOver");
  EXPECT_THAT(Output(), HasSubstr("the trainer was ended by signal 9 (Killed); starting it again"));
  EXPECT_THAT(Events("TookOver").front().at("text").get<std::string>(),
              HasSubstr("4 workers of 4"));
  ExpectThatNothingWasLost();
  EXPECT_EQ(Events("TrainingStarted").size(), 1u);
  EXPECT_THAT(Events("RolledBack"), IsEmpty());
  EXPECT_THAT(Output(), Not(HasSubstr("workers lost")));
}

TEST_F(SystemFaultsTest, AWorkerAndTheTrainerAreKilledTogether) {
  job_.spec.training.stepMode = api::StepMode::kDelayed;
  StartAndReachACheckpoint();
  Signal("trainer", SIGKILL);
  Signal("worker-2", SIGKILL);
  AwaitEvent("TookOver");
  AwaitJoinOf("worker-4");
  ExpectThatNothingWasLost();
  EXPECT_THAT(Events("RolledBack"), IsEmpty());
}

TEST_F(SystemFaultsTest, AWorkerThatIsToldToEndHandsOverWhatItHasAndIsNoLoss) {
  StartAndReachACheckpoint();
  Signal("worker-3", SIGTERM);
  Await("that worker-3 leaves", [&] {  // by name: a worker that moves leaves its stage too
    const auto left = Named("WorkerLeft");
    return std::find(left.begin(), left.end(), "worker-3") != left.end();
  });
  AwaitJoinOf("worker-4");
  ExpectThatNothingWasLost();
  EXPECT_THAT(Events("WorkerLost"), IsEmpty());
}

TEST_F(SystemFaultsTest, AStoppedWorkerIsEvictedAndComesBackWithItsStateWhenItWakes) {
  StartAndReachACheckpoint("0=2,1=2", {"--no-moves"});
  const pid_t stopped = Programs().at("worker-0");
  Signal("worker-0", SIGSTOP);
  AwaitLossOf("worker-0");
  AwaitMoreSteps();
  Signal("worker-0", SIGCONT);
  AwaitJoinOf("worker-0", 2);
  EXPECT_EQ(Programs().at("worker-0"), stopped) << "not started anew, it has begun anew";
  ExpectThatNothingWasLost();
  ExpectThatItCopiedNothing("worker-0");
  EXPECT_THAT(Output(), Not(HasSubstr("workers lost")));
}

TEST_F(SystemFaultsTest, AWorkerThatWasCutOffComesBackWithItsStateAndCatchesUp) {
  job_.spec.training.stepMode = api::StepMode::kDelayed;
  StartRun({"--workers", "0=2,1=2", "--no-moves", "--chaos", "cut worker-1 at step 20 for 6s"});
  AwaitLossOf("worker-1");
  AwaitJoinOf("worker-1", 2);
  ExpectThatNothingWasLost();
  ExpectThatItCopiedNothing("worker-1");
  EXPECT_THAT(Events("RolledBack"), IsEmpty());
}

TEST_F(SystemFaultsTest, ATrainerThatIsStoppedForAWhileGoesOn) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGSTOP);
  // Meanwhile nothing may need the trainer, which notices the killed worker only later.
  Signal("worker-1", SIGKILL);
  Await("the replacement", [&] { return Programs().contains("worker-4"); });
  Signal("trainer", SIGCONT);
  AwaitJoinOf("worker-4");
  ExpectThatNothingWasLost();
}

TEST_F(SystemFaultsTest, ATrainerThatWasStoppedForTooLongGivesWayAndNothingIsLost) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGSTOP);
  // Long enough for the trainer itself, and too short for swarmctl, which kills it after 10 s.
  std::this_thread::sleep_for(protocol::Patience().stopped + std::chrono::milliseconds(500));
  Signal("trainer", SIGCONT);
  AwaitEvent("TookOver");
  EXPECT_THAT(Content("out/workers/trainer.log"),
              HasSubstr("leaving: this trainer was stopped for"));
  EXPECT_THAT(Output(), Not(HasSubstr("killing it")));
  ExpectThatNothingWasLost();
  EXPECT_THAT(Events("RolledBack"), IsEmpty());
  EXPECT_THAT(Events("StageLost"), IsEmpty());
  EXPECT_THAT(Output(), Not(HasSubstr("workers lost")));
}

TEST_F(SystemFaultsTest, ATrainerThatDoesNotAnswerIsKilledAndNothingIsLost) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGSTOP);
  AwaitEvent("TookOver");
  EXPECT_THAT(Output(), HasSubstr("the trainer has not answered for 10 s; killing it"));
  ExpectThatNothingWasLost();
  EXPECT_THAT(Events("RolledBack"), IsEmpty());
}

TEST_F(SystemFaultsTest, AStageThatIsLostIsStaffedAnewAndTheJobGoesBackToItsCheckpoint) {
  StartAndReachACheckpoint("0=2,1=1");
  std::string single;  // of stage 1
  for (const auto& event : Events("WorkerJoined")) {
    const std::string text = event.at("text");
    if (text.ends_with("stage 1")) single = text.substr(0, text.find(' '));
  }
  Signal(single, SIGKILL);
  AwaitEvent("StageLost");
  AwaitEvent("RolledBack");
  EXPECT_THAT(Events("StageLost").front().at("text").get<std::string>(),
              HasSubstr("stage 1 has no replica left"));
  AwaitJoinOf("worker-3");
  ExpectThatNothingWasLost();
}

TEST_F(SystemFaultsTest, AllWorkersAreKilledAtOnceAndTheJobWaitsForOthers) {
  StartAndReachACheckpoint("0=1,1=1");
  for (const char* name : {"worker-0", "worker-1"}) Signal(name, SIGKILL);
  AwaitEvent("StageLost");
  AwaitEvent("TrainingStarted", 2);
  ExpectThatNothingWasLost();
}

TEST_F(SystemFaultsTest, EverythingButSwarmctlIsKilledAtOnce) {
  StartAndReachACheckpoint();
  for (const auto& [name, pid] : Programs()) {
    if (name != "swarmctl") Signal(name, SIGKILL);
  }
  AwaitEvent("TrainingStarted", 2);
  ExpectThatNothingWasLost();
}

TEST_F(SystemFaultsTest, TwoInterruptionsEndEverythingAtOnce) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGSTOP);  // so that it cannot finish after the first
  Signal("swarmctl", SIGINT);
  Await("the first interruption",
        [&] { return Output().find("once more kills") != std::string::npos; });
  EXPECT_EQ(Programs().size(), 6u);
  Signal("swarmctl", SIGINT);
  EXPECT_EQ(ExitCode(), 130) << Output();
  EXPECT_THAT(Programs(), IsEmpty());
}

TEST_F(SystemFaultsTest, NothingOutlivesAKilledSwarmctlAndTheRunIsResumed) {
  StartAndReachACheckpoint();
  Signal("swarmctl", SIGKILL);
  EXPECT_EQ(ExitCode(), -1);
  AwaitNoPrograms();
  job_.spec.training.maxSteps = StepsDone() + 6;
  StartRun({"--resume", "--workers", "0=1,1=1"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceBits();
}

}  // namespace
}  // namespace swarm::tests
