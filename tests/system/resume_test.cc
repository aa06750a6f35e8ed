// A stopped run continues, with other stages and replicas, as if it had not been stopped.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/system/system_test.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;

class SystemResumeTest : public SystemTest, public testing::WithParamInterface<api::StepMode> {
 protected:
  /// Of the files in a folder.
  std::set<std::string> Names(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Path(folder))) {
      names.insert(entry.path().filename());
    }
    return names;
  }
};

TEST_P(SystemResumeTest, AnInterruptedRunGoesOnWithOtherStagesAndReplicas) {
  job_.spec.training.stepMode = GetParam();
  job_.spec.training.maxSteps = kNeverReached;
  StartRun({"--workers", "0=2,1=1,2=1"});
  AwaitSteps(7);
  Signal("swarmctl", SIGINT);
  ASSERT_EQ(ExitCode(), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("Interrupted after"));
  EXPECT_THAT(Output(), HasSubstr("--resume"));
  EXPECT_THAT(Programs(), testing::IsEmpty());
  const std::size_t done = Losses(Out()).size();
  EXPECT_EQ(Events("CheckpointWritten").back().at("text"), "version " + std::to_string(done));

  job_.spec.training.maxSteps = done + 8;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  StartRun({"--resume", "--set", "pipeline.stages=2", "--workers", "0=1,1=2"});
  ASSERT_EQ(ExitCode(), 0) << Output();
  ExpectReferenceLosses();
  EXPECT_EQ(Events("TrainingStarted").back().at("text"),
            "3 workers in 2 stages, from version " + std::to_string(done));

  // Nothing is left to do: no worker is waited for.
  const std::string steps = Content("out/steps.jsonl");
  StartRun({"--resume", "--set", "pipeline.stages=1", "--workers", "1"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_EQ(Content("out/steps.jsonl"), steps);
  EXPECT_THAT(Output(), testing::ContainsRegex("Succeeded after [0-9]+s: step " +
                                               std::to_string(done + 8) + "/"));

  // A job with another model may not go on from here, and does not end the one that does.
  const auto claims = Names("out/checkpoints/trainers");
  EXPECT_EQ(claims.size(), 1u);
  job_.spec.model.config.rope.theta = 20000;
  StartRun({"--resume", "--set", "pipeline.stages=1", "--workers", "1"});
  EXPECT_EQ(ExitCode(), 2) << Output();
  EXPECT_THAT(Output(), HasSubstr("rope_theta"));
  EXPECT_EQ(Names("out/checkpoints/trainers"), claims);
}

INSTANTIATE_TEST_SUITE_P(, SystemResumeTest,
                         testing::Values(api::StepMode::kSync, api::StepMode::kDelayed),
                         [](const auto& info) {
                           return info.param == api::StepMode::kSync ? "Sync" : "Delayed";
                         });

class SystemDamagedCheckpointTest : public SystemTest {
 protected:
  /// Trains to step 12, with a checkpoint every four steps.
  void TrainTwelveSteps() {
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.checkpoint.intervalSteps = 4;
    job_.spec.checkpoint.keepLast = 10;
    job_.spec.training.maxSteps = 12;
    StartRun({"--workers", "0=2,1=1,2=1"});
    ASSERT_EQ(ExitCode(), 0) << Output();
    ASSERT_TRUE(std::filesystem::exists(Path("out/checkpoints/step-00000012-g0/manifest.json")));
    job_.spec.training.maxSteps = 20;
  }
  /// Changes the last byte.
  void Damage(const std::string& file) {
    std::string content = Content(file);
    content.back() ^= 1;
    std::ofstream(Path(file), std::ios::binary) << content;
  }
  void ExpectToGoOnFrom(int version) {
    StartRun({"--resume", "--workers", "0=2,1=1,2=1", "--restart-delay", "0.1"});
    ASSERT_EQ(ExitCode(), 0) << Output();
    const std::string text = Events("TrainingStarted").back().at("text");
    EXPECT_THAT(text, testing::EndsWith(" in 3 stages, from version " + std::to_string(version)));
    ExpectReferenceBits();
  }
};

TEST_F(SystemDamagedCheckpointTest, TheJobGoesOnFromTheNewestIntactOneAndSaysSo) {
  TrainTwelveSteps();
  const std::string newest = "out/checkpoints/step-00000012-g0";
  Damage(newest + "/stage-0-of-3.safetensors");
  Damage("out/checkpoints/step-00000008-g0/optimizer-2-of-3.safetensors");
  ExpectToGoOnFrom(4);
  ASSERT_EQ(Events("CheckpointDamaged").size(), 2u);
  const std::string text = Events("CheckpointDamaged")[0].at("text");
  EXPECT_THAT(text, HasSubstr("stage-0-of-3.safetensors is damaged"));
  EXPECT_THAT(text, HasSubstr("the job goes on from version 4"));
  EXPECT_TRUE(std::filesystem::exists(Path(newest + "/stage-0-of-3.safetensors")));
  EXPECT_THAT(Content(newest + "/damaged.json"), HasSubstr("digest"));
}

TEST_F(SystemDamagedCheckpointTest, AManifestThatCannotBeReadIsPassedOver) {
  TrainTwelveSteps();
  std::ofstream(Path("out/checkpoints/step-00000012-g0/manifest.json")) << "{";
  ExpectToGoOnFrom(8);
}

}  // namespace
}  // namespace swarm::tests
