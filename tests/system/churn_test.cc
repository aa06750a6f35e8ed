// Faults by script in the middle of the steps: the losses are the undisturbed run's.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Story {
  std::string name;
  std::string script;
  std::string layout = "0=2,1=2,2=2";
  std::vector<std::string> kinds = {};  ///< of events that must have been
  api::StepMode mode = api::StepMode::kSync;
  bool tied = false;
  std::string output = {};  ///< what swarmctl must have said
};

void PrintTo(const Story& story, std::ostream* out) { *out << story.script; }

class SystemChurnTest : public SystemTest, public testing::WithParamInterface<Story> {};

TEST_P(SystemChurnTest, HasTheLossesOfOneProcess) {
  const Story& story = GetParam();
  job_.spec.training.maxSteps = 50;
  job_.spec.training.stepMode = story.mode;
  job_.spec.model.config.tie_word_embeddings = story.tied;
  job_.spec.workers = {.replicas = 6, .minReplicas = 3};
  StartRun({"--workers", story.layout, "--restart-delay", "0.1", "--chaos", story.script});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
  EXPECT_EQ(Events("CheckpointWritten").back().at("text"), "version 50");
  EXPECT_THAT(Programs(), IsEmpty());
  for (const std::string& kind : story.kinds) EXPECT_THAT(Events(kind), Not(IsEmpty())) << kind;
  EXPECT_THAT(Output(), HasSubstr(story.output));
}

constexpr api::StepMode kDelayed = api::StepMode::kDelayed;

INSTANTIATE_TEST_SUITE_P(
    , SystemChurnTest,
    testing::Values(
        Story{.name = "KillOneOfEachStage",
              .script = "kill any of stage 0 at step 10; kill any of stage 1 at step 20;"
              "kill any of stage 2 at step 30",
              .kinds = {"WorkerLost"}},
        Story{.name = "KillOneOfEachStageDelayed",
              .script = "kill any of stage 0 at step 10; kill any of stage 1 at step 20;"
              "kill any of stage 2 at step 30",
              .kinds = {"WorkerLost"},
              .mode = kDelayed},
        Story{.name = "KillThreeAtOnce",
              .script = "kill any of stage 0 at step 15; kill any of stage 1 at step 15;"
              "kill any of stage 2 at step 15",
              .kinds = {"WorkerLost"},
              .mode = kDelayed},
        Story{.name = "KillBothEndsOfATiedHead",
              .script = "kill any of stage 0 at step 12; kill any of stage 2 at step 12; kill trainer at "
              "step 25",
              .kinds = {"WorkerLost", "TookOver"},
              .tied = true},
        Story{.name = "KillAdjacentStagesWhole",
              .script = "kill worker-0 at step 17; kill worker-1 at step 17",
              .layout = "0=1,1=1,2=1",
              .kinds = {"StageLost", "RolledBack"}},
        Story{.name = "KillTheTrainerOften",
              .script = "kill trainer at step 8; kill trainer at step 20; kill trainer at step 33",
              .kinds = {"TookOver"},
              .mode = kDelayed},
        Story{.name = "StopAWorkerForGood",
              .script = "stop any of stage 1 at step 10", .kinds = {"WorkerLost"}},
        Story{.name = "StopAWorkerForAMoment",
              .script = "stop any of stage 1 at step 10 for 700ms",
              .mode = kDelayed},
        Story{.name = "StopTheTrainer",
              .script = "stop trainer at step 10 for 1500ms"},
        Story{.name = "DrainOneOfEachStage",
              .script = "drain any of stage 0 at step 10; drain any of stage 1 at step 20;"
              "drain any of stage 2 at step 30",
              .kinds = {"WorkerLeft"}},
        Story{.name = "DrainTheLastReplica",
              .script = "drain worker-1 at step 10 grace 2s",
              .layout = "0=1,1=1,2=1",
              .kinds = {"WorkerLeaving"}},
        Story{.name = "JoinInMidRun",
              .script = "join 2 at step 5", .layout = "0=1,1=1,2=1",
              .kinds = {"WorkerJoined"}},
        Story{.name = "CutWorkerFromAll",
              .script = "cut worker-2 at step 10 for 6s", .kinds = {"WorkerLost"}},
        Story{.name = "CutWorkerFromTrainer",
              .script = "cut worker-2 from trainer at step 10 for 6s",
              .kinds = {"WorkerLost"}},
        Story{.name = "CutOneWayToTheTrainer",
              .script = "cut worker-2 to trainer at step 10 for 6s",
              .kinds = {"WorkerLost"}},
        Story{.name = "CutOneWayFromTheTrainer",
              .script = "cut trainer to worker-2 at step 10 for 6s"},
        Story{.name = "CutTwoWorkers",
              .script = "cut worker-0 from worker-1 at step 10 for 4s"},
        Story{.name = "CutTwoWorkersOneWay",
              .script = "cut worker-0 to worker-1 at step 10 for 4s"},
        Story{.name = "SlowWorkersAndSlowLinks",
              .script = "slow worker-1 by 8 at step 5 for 2s; delay worker-2 by 20ms at step 15 for 2s;"
              "kill any at step 20",
              .kinds = {"WorkerLost"}}),
    [](const auto& info) { return info.param.name; });

class SystemExactChurnTest : public SystemTest,
                             public testing::WithParamInterface<api::StepMode> {};

// Kills at moments of no meaning meet every phase of a step; the simulator meets each by intent.
TEST_P(SystemExactChurnTest, ContinuousFaultsDoNotChangeAByteOfHundredsOfSteps) {
  job_.spec.model.config.num_hidden_layers = 2;
  job_.spec.model.config.tie_word_embeddings = GetParam() == api::StepMode::kDelayed;
  job_.spec.training.accumulation = api::Accumulation::kExact;
  job_.spec.training.stepMode = GetParam();
  job_.spec.training.maxSteps = 400;
  job_.spec.pipeline.stages = 2;
  job_.spec.checkpoint.intervalSteps = 10;
  job_.spec.workers = {.replicas = 5, .minReplicas = 2};
  StartRun({"--workers", "0=3,1=2", "--restart-delay", "0.1", "--chaos",
            "kill any about every 700ms seed 5 until step 390;"
            "drain any at step 60; join at step 100; kill trainer at step 150;"
            "stop any at step 200 for 500ms; kill trainer at step 250; stop trainer at step 300 "
            "for 500ms"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceBits();
  EXPECT_GT(Events("WorkerLost").size(), 3u);
  EXPECT_THAT(Events("TookOver"), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(, SystemExactChurnTest,
                         testing::Values(api::StepMode::kSync, api::StepMode::kDelayed),
                         [](const auto& info) {
                           return info.param == api::StepMode::kSync ? "Sync" : "DelayedTied";
                         });

}  // namespace
}  // namespace swarm::tests
