// Programs that are killed: nothing outlives a run, nothing is lost that stood in a checkpoint, and
// the user is told.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SystemFaultsTest : public SystemTest {
 protected:
  SystemFaultsTest() { job_.spec.training.maxSteps = kNeverReached; }

  /// Until the run is between two checkpoints, the first of which it has.
  void StartAndReachACheckpoint() {
    StartRun();
    AwaitEvent("CheckpointWritten");
    AwaitSteps(7);
  }
  /// The steps that the newest checkpoint stands behind.
  std::uint64_t CheckpointedSteps() {
    const std::string text = Events("CheckpointWritten").back().at("text");
    return std::stoull(text.substr(text.find(' ')));
  }
  void ExpectThatItGoesOn() {
    job_.spec.training.maxSteps = CheckpointedSteps() + 6;
    StartRun({"--resume"});
    ASSERT_EQ(ExitCode(), 0) << Output();
    ExpectReferenceLosses();
  }
};

TEST_F(SystemFaultsTest, AKilledWorkerEndsTheRunWhichGoesOnFromItsCheckpoint) {
  StartAndReachACheckpoint();
  Signal("worker-1", SIGKILL);
  EXPECT_EQ(ExitCode(), 1) << Output();
  EXPECT_THAT(Output(), HasSubstr("worker-1 was ended by signal 9 (Killed)"));
  EXPECT_THAT(Output(), HasSubstr("Reason: worker worker-1 was lost in step "));
  EXPECT_THAT(Output(), HasSubstr("run again with --resume"));
  EXPECT_THAT(Programs(), IsEmpty());
  ExpectThatItGoesOn();
}

TEST_F(SystemFaultsTest, AKilledTrainerIsStartedAgainAndTheRunGoesOnFromItsCheckpoint) {
  StartAndReachACheckpoint();
  Signal("trainer", SIGKILL);
  AwaitEvent("TrainingStarted", 2);
  EXPECT_THAT(Output(), HasSubstr("the trainer was ended by signal 9 (Killed); starting it again"));
  AwaitEvent("CheckpointWritten", 3);
  Signal("swarmctl", SIGTERM);
  EXPECT_EQ(ExitCode(), 0) << Output();
  job_.spec.training.maxSteps = Losses(Out()).size();
  ExpectReferenceLosses();
  EXPECT_THAT(Output(), testing::Not(HasSubstr("workers lost")));
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

TEST_F(SystemFaultsTest, NothingOutlivesAKilledSwarmctl) {
  StartAndReachACheckpoint();
  Signal("swarmctl", SIGKILL);
  EXPECT_EQ(ExitCode(), -1);
  AwaitNoPrograms();
  ExpectThatItGoesOn();
}

}  // namespace
}  // namespace swarm::tests
