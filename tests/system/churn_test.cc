// Faults by script in the middle of the steps: the losses are the undisturbed run's.
#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr api::StepMode kDelayed = api::StepMode::kDelayed;

struct Story {
  std::string name;
  std::string script;
  std::string layout = "0=2,1=2,2=2";
  std::vector<std::string> kinds = {};  ///< of events that must have happened
  api::StepMode mode = api::StepMode::kSync;
  bool tied = false;
};

void PrintTo(const Story& story, std::ostream* out) { *out << story.script; }

class ChurnTest : public SystemTest {
 protected:
  /// A busy machine may silence a worker; but none departs because of a pair.
  void ExpectNoneBlamedForAPair() {
    for (const auto& lost : Events("WorkerLost")) {
      const std::string why = lost.at("text");
      EXPECT_THAT(why, Not(HasSubstr("do not reach")));
      EXPECT_THAT(why, Not(HasSubstr("does not finish the sum")));
    }
  }
};

class SystemChurnTest : public ChurnTest, public testing::WithParamInterface<Story> {
 protected:
  SystemChurnTest() {
    const Story& story = GetParam();
    job_.spec.model.config.num_hidden_layers = 3;
    job_.spec.model.config.tie_word_embeddings = story.tied;
    job_.spec.training.maxSteps = 50;
    job_.spec.training.stepMode = story.mode;
    job_.spec.checkpoint.intervalSteps = 10;
    job_.spec.workers = {.replicas = 6, .minReplicas = 3};
  }

  /// Computed once for all stories of one job.
  const std::vector<double>& UndisturbedLosses() {
    static std::map<std::pair<api::StepMode, bool>, std::vector<double>> known;
    auto& losses = known[{GetParam().mode, GetParam().tied}];
    if (losses.empty()) losses = Losses(Reference());
    return losses;
  }
};

TEST_P(SystemChurnTest, HasTheLossesOfOneProcess) {
  const Story& story = GetParam();
  StartRun({"--workers", story.layout, "--restart-delay", "0.1", "--chaos", story.script});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectThatAllTookHold(story.script);
  ExpectLosses(UndisturbedLosses());
  EXPECT_EQ(Events("CheckpointWritten").back().at("text"), "version 50");
  EXPECT_THAT(Programs(), IsEmpty());
  for (const std::string& kind : story.kinds) EXPECT_THAT(Events(kind), Not(IsEmpty())) << kind;
  ExpectNoneBlamedForAPair();
  if (story.script.find("cut") != story.script.npos) {
    EXPECT_THAT(Content("out/workers/trainer.log"), HasSubstr("the network is disturbed by"));
  }
}

std::string NameOf(const testing::TestParamInfo<Story>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Killed, SystemChurnTest,
    testing::Values(
        Story{.name = "OneOfEachStage",
              .script = "kill any of stage 0 at step 10; kill any of stage 1 at step 20;"
                        "kill any of stage 2 at step 30",
              .kinds = {"WorkerLost"}},
        Story{.name = "BothEndsOfATiedHead",
              .script = "kill any of stage 0 at step 12; kill any of stage 2 at step 12;"
                        "kill trainer at step 25",
              .kinds = {"WorkerLost", "TookOver"},
              .tied = true},
        Story{.name = "AdjacentStagesWhole",
              .script = "kill worker-0 at step 17; kill worker-1 at step 17",
              .layout = "0=1,1=1,2=1",
              .kinds = {"StageLost", "RolledBack"}},
        Story{.name = "TheTrainerOften",
              .script = "kill trainer at step 8; kill trainer at step 20;"
                        "kill trainer at step 33",
              .layout = "0=1,1=2,2=1",
              .kinds = {"TookOver"},
              .mode = kDelayed}),
    NameOf);

// make test-heavy: each is between two of the others.
INSTANTIATE_TEST_SUITE_P(
    Rare, SystemChurnTest,
    testing::Values(
        Story{.name = "ThreeAreKilledAtOnce",
              .script = "kill any of stage 0 at step 15; kill any of stage 1 at step 15;"
                        "kill any of stage 2 at step 15",
              .kinds = {"WorkerLost"},
              .mode = kDelayed},
        Story{.name = "OneIsCutFromAll",
              .script = "cut any of stage 0 at step 10",
              .layout = "0=2,1=1,2=1",
              .kinds = {"WorkerLost"}},
        Story{.name = "OneIsCutOneWayFromAnother",
              .script = "cut worker-0 to worker-1 at step 10 for 2s",
              .layout = "0=2,1=2"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Left, SystemChurnTest,
    testing::Values(
        Story{.name = "OneOfEachStage",
              .script = "drain any of stage 0 at step 10; drain any of stage 1 at step 20;"
                        "drain any of stage 2 at step 30",
              .kinds = {"WorkerLeft"}},
        Story{.name = "TheLastReplica",
              .script = "drain worker-1 at step 10 grace 2s",
              .layout = "0=1,1=1,2=1",
              .kinds = {"WorkerLeaving"}}),
    NameOf);

// Workers that are stopped or cut off without an end are found by their silence, which takes
// seconds.
INSTANTIATE_TEST_SUITE_P(Silent, SystemChurnTest,
                         testing::Values(Story{.name = "StoppedForGood",
                                               .script = "stop any of stage 1 at step 10",
                                               .layout = "0=1,1=2,2=1",
                                               .kinds = {"WorkerLost"}},
                                         Story{
                                             .name = "CutFromTheTrainer",
                                             .script = "cut any of stage 2 from trainer at step 10",
                                             .layout = "0=1,1=1,2=2",
                                             .kinds = {"WorkerLost"},
                                             .mode = kDelayed},
                                         Story{.name = "CutOneWayToTheTrainer",
                                               .script = "cut any of stage 1 to trainer at step 10",
                                               .layout = "0=1,1=2,2=1",
                                               .kinds = {"WorkerLost"}}),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(
    Disturbed, SystemChurnTest,
    testing::Values(Story{.name = "CutOneWayFromTheTrainer",
                          .script = "cut trainer to worker-2 at step 10 for 2s",
                          .layout = "0=2,1=2"},
                    Story{.name = "TwoCutFromEachOther",
                          .script = "cut worker-0 from worker-1 at step 10 for 2s",
                          .layout = "0=2,1=2"},
                    Story{.name = "SlowWorkersAndSlowLinks",
                          .script = "slow worker-1 by 8 at step 5 for 2s;"
                                    "delay worker-2 by 20ms at step 15 for 2s; kill any at step 20",
                          .kinds = {"WorkerLost"}}),
    NameOf);

/// A job with many switches on at once.
struct Switched {
  std::string name;
  api::StepMode mode;
  void (*turn_on)(api::Spec&);
};

void PrintTo(const Switched& job, std::ostream* out) { *out << job.name; }

class SystemSwitchesTest : public ChurnTest, public testing::WithParamInterface<Switched> {
 protected:
  /// Prompts and completions of unlike lengths.
  std::string PutExamples() {
    std::string lines;
    for (int i = 0; i < 300; ++i) {
      const auto length = static_cast<std::size_t>(i * i % 7 + 1);
      lines += R"({"prompt": ")" + std::string(length, static_cast<char>('a' + i % 5)) +
               R"( is", "completion": " )" + std::to_string(length) + "\"}\n";
    }
    EXPECT_TRUE(WriteFile(Path("examples.jsonl"), lines).ok());
    return Path("examples.jsonl");
  }
  /// `swarmctl train` of job_.
  void TrainInOneProcess(const std::string& out) {
    ASSERT_TRUE(WriteFile(Path("alone.json"), api::ToJsonText(job_)).ok());
    Start({"train", "-f", Path("alone.json"), "--out", out});
    ASSERT_EQ(ExitCode(), 0) << Output();
  }
  /// The job begins with weights that it has after some steps, as a folder of Hugging Face's.
  void BeginWithWeights() {
    const api::SwarmJob job = job_;
    job_.spec.training.maxSteps = job_.spec.schedule.warmupSteps;
    job_.spec.model.lora = {};
    TrainInOneProcess(Path("first"));
    Start({"export", "--from", Path("first"), "--out", Path("base")});
    ASSERT_EQ(ExitCode(), 0) << Output();
    job_ = job;
    job_.spec.model.uri = Path("base");
    job_.spec.model.init = api::ModelInit::kPretrained;
    job_.spec.model.config = {};
  }
};

TEST_P(SystemSwitchesTest, WorkersAndTheTrainerAreKilledAndTheLossesAreThoseOfOneProcess) {
  api::Spec& spec = job_.spec;
  spec.model.config.num_hidden_layers = 3;
  spec.training.maxSteps = 40;
  spec.training.stepMode = GetParam().mode;
  spec.checkpoint.intervalSteps = 10;
  spec.workers = {.replicas = 6, .minReplicas = 3};
  spec.data.uri = PutExamples();
  spec.data.format = api::DataFormat::kPromptCompletion;
  spec.data.documents = api::DocumentView::kSeparate;
  GetParam().turn_on(spec);
  if (spec.model.lora.rank > 0) BeginWithWeights();
  const std::string script =
      "kill any of stage 0 at step 8; kill trainer at step 16; kill any of stage 1 at step 25;"
      "kill any of stage 2 at step 25";
  StartRun({"--workers", "0=2,1=2,2=2", "--restart-delay", "0.1", "--chaos", script});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectThatAllTookHold(script);
  TrainInOneProcess(Path("alone"));
  ExpectLosses(Losses(Path("alone")));
  for (const char* kind : {"WorkerLost", "TookOver"}) EXPECT_THAT(Events(kind), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Switches, SystemSwitchesTest,
    testing::Values(Switched{"MuonAndAllOfTraining", kDelayed,
                             [](api::Spec& spec) {
                               MakeFamily(api::ModelFamily::kMistral, spec.model.config);
                               spec.optimizer.type = api::OptimizerType::kMuon;
                               spec.optimizer.decayEmbeddings = false;
                               spec.schedule.type = api::ScheduleType::kWSD;
                               spec.schedule.decaySteps = 10;
                               spec.training.zLoss = 1e-3;
                               spec.pipeline.recompute = api::Recompute::kLayers;
                             }},
                    Switched{"AdaptersExact", api::StepMode::kSync,
                             [](api::Spec& spec) {
                               MakeFamily(api::ModelFamily::kQwen3, spec.model.config);
                               spec.model.config.tie_word_embeddings = true;
                               spec.model.lora = {.rank = 4, .alpha = 16};
                               spec.model.config.initializer_range =
                                   0.2;  // larger adapters learn more
                               spec.optimizer.learningRate = 5e-3;
                               spec.schedule.type = api::ScheduleType::kInverseSquareRoot;
                               spec.training.accumulation = api::Accumulation::kExact;
                               spec.pipeline.recompute = api::Recompute::kFull;
                             }}),
    [](const testing::TestParamInfo<Switched>& info) { return info.param.name; });

struct Pair {
  std::string name;
  std::string script;
  std::string layout;
  api::StepMode mode = api::StepMode::kSync;
  bool tied = false;
};

void PrintTo(const Pair& pair, std::ostream* out) { *out << pair.script; }

class SystemApartTest : public ChurnTest, public testing::WithParamInterface<Pair> {};

// The run ends only when the pair was noticed: how many steps that takes depends on the machine.
TEST_P(SystemApartTest, TwoThatNeverReachEachOtherAgainAreServedByAThird) {
  const Pair& pair = GetParam();
  job_.spec.model.config.num_hidden_layers = 3;
  job_.spec.model.config.tie_word_embeddings = pair.tied;
  job_.spec.training.accumulation = api::Accumulation::kExact;
  job_.spec.training.maxSteps = kNeverReached;
  job_.spec.training.stepMode = pair.mode;
  job_.spec.pipeline.stages = std::count(pair.layout.begin(), pair.layout.end(), '=');
  job_.spec.checkpoint.intervalSteps = 100;
  job_.spec.workers = {.replicas = 4, .minReplicas = job_.spec.pipeline.stages};
  StartRun({"--workers", pair.layout, "--chaos", pair.script});
  AwaitEvent("PairBroken");
  AwaitMoreSteps();
  Signal("swarmctl", SIGTERM);
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectThatAllTookHold(pair.script);
  EXPECT_THAT(Content("out/workers/trainer.log"), HasSubstr("the network is disturbed by"));
  ExpectNoneBlamedForAPair();
  job_.spec.training.maxSteps = Losses(Out()).size();
  ExpectReferenceBits();
}

INSTANTIATE_TEST_SUITE_P(Apart, SystemApartTest,
                         testing::Values(Pair{.name = "TwoStagesWithASibling",
                                              .script = "cut worker-0 from worker-2 at step 10",
                                              .layout = "0=2,1=1"},
                                         Pair{.name = "OneWayInsideAStage",
                                              .script = "cut worker-0 to worker-1 at step 10",
                                              .layout = "0=3,1=1",
                                              .mode = kDelayed},
                                         // A tied head: any two of them exchange data.
                                         Pair{.name = "TwoStagesWithoutASibling",
                                              .script = "cut worker-0 from worker-1 at step 10",
                                              .layout = "0=1,1=1,2=1",
                                              .tied = true}),
                         [](const testing::TestParamInfo<Pair>& info) { return info.param.name; });

class SystemJoinTest : public SystemTest {};

TEST_F(SystemJoinTest, WhoJoinsInMidRunServesAndTheLossesDoNotChange) {
  job_.spec.model.config.num_hidden_layers = 2;
  job_.spec.training.accumulation = api::Accumulation::kExact;
  job_.spec.training.maxSteps = kNeverReached;
  job_.spec.pipeline.stages = 2;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  StartRun({"--workers", "0=1,1=1", "--chaos", "join 2 at step 5"});
  Await("that the two serve", [&] {
    const auto joined = Named("WorkerJoined");
    return std::count(joined.begin(), joined.end(), "worker-2") == 1 &&
           std::count(joined.begin(), joined.end(), "worker-3") == 1;
  });
  Await("that both have had a part in sums, not only a seat", [&] {
    std::set<std::string> claimants;
    for (const auto& line : ReadLines(Out() + "/ledger.jsonl")) {
      for (const auto& group : line.at("groups")) {
        for (const auto& part : group.at("participants")) {
          if (!part.at("microbatches").empty()) claimants.insert(part.at("worker"));
        }
      }
    }
    return claimants.contains("worker-2") && claimants.contains("worker-3");
  });
  Signal("swarmctl", SIGTERM);
  ASSERT_EQ(ExitCode(), 0) << Output();
  ASSERT_EQ(Faults().size(), 1u);
  job_.spec.training.maxSteps = Losses(Out()).size();
  ExpectReferenceBits();
}

class SystemExactChurnTest : public SystemTest,
                             public testing::WithParamInterface<api::StepMode> {};

/// A kill every 20 steps, whatever is going on then, and each of the others once or twice.
std::string ContinuousFaults(std::uint64_t steps) {
  std::string script =
      "drain any at step 30; join at step 50; kill trainer at step 90; stop any at step 130 for "
      "500ms;"
      "kill trainer at step 170; stop trainer at step 210 for 500ms";
  for (std::uint64_t step = 20; step < steps; step += 20) {
    script += "; kill any at step " + std::to_string(step) + " seed " + std::to_string(step);
  }
  return script;
}

// Faults at arbitrary moments; phase_test.cc meets each phase of a step.
TEST_P(SystemExactChurnTest, ContinuousFaultsDoNotChangeAByteOfHundredsOfSteps) {
  job_.spec.model.config.num_hidden_layers = 2;
  job_.spec.model.config.tie_word_embeddings = GetParam() == kDelayed;
  job_.spec.training.accumulation = api::Accumulation::kExact;
  job_.spec.training.stepMode = GetParam();
  job_.spec.training.maxSteps = 240;
  job_.spec.pipeline.stages = 2;
  job_.spec.checkpoint.intervalSteps = 10;
  job_.spec.workers = {.replicas = 5, .minReplicas = 2};
  const std::string script = ContinuousFaults(job_.spec.training.maxSteps);
  StartRun({"--workers", "0=3,1=2", "--restart-delay", "0.1", "--chaos", script});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectThatAllTookHold(script);
  ExpectReferenceBits();
  EXPECT_GT(Events("WorkerLost").size(), 3u);
  // At least one: if the trainer is killed during a rollback, its successor finds no worker that
  // holds anything, and begins a generation instead.
  EXPECT_THAT(Events("TookOver"), Not(IsEmpty()));
}

std::string NameOfMode(const testing::TestParamInfo<api::StepMode>& info) {
  return info.param == api::StepMode::kSync ? "Sync" : "DelayedTied";
}

INSTANTIATE_TEST_SUITE_P(, SystemExactChurnTest, testing::Values(api::StepMode::kSync), NameOfMode);
// make test-heavy
INSTANTIATE_TEST_SUITE_P(Rare, SystemExactChurnTest, testing::Values(kDelayed), NameOfMode);

}  // namespace
}  // namespace swarm::tests
