// A stopped run continues, with other stages and replicas, as if it had not been stopped.
#include <filesystem>
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
  job_.spec.model.config.rope_theta = 20000;
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

}  // namespace
}  // namespace swarm::tests
