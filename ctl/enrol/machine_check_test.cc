// A machine looks at itself before it becomes a worker. A shell script is in the place of the
// probe.
#include "ctl/enrol/machine_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "api/job_for_machines.h"
#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "ctl/local_model.h"
#include "ctl/manifest_file.h"

namespace swarm::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class MachineCheckTest : public testing::Test {
 protected:
  MachineCheckTest() {
    job_.name = "tiny";
    job_.spec.model.config = {.hidden_size = 1024,
                              .num_hidden_layers = 2,
                              .num_attention_heads = 16,
                              .num_key_value_heads = 16,
                              .head_dim = 64,
                              .intermediate_size = 2816,
                              .vocab_size = 256};
    job_.spec.training = {
        .maxSteps = 1, .globalBatchSize = 1, .microbatchSize = 1, .sequenceLength = 16};
    job_.spec.workers = {.replicas = 1, .minReplicas = 1};
  }

  /// Its arguments end up in a file. The fifth is that of the fleet.
  void ProbeIs(const std::string& script) {
    const std::string path = Path("probe.sh").string();
    ASSERT_TRUE(
        WriteFile(path, "#!/bin/sh\necho \"$@\" >" + Path("asked").string() + "\n" + script + "\n")
            .ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    check_.program = path;
  }
  Status Check() {
    check_.job = api::JobForMachines(job_);
    check_.folder = Path("out");
    return CheckMachine(check_, signals_,
                        [this](const std::string& text) { said_.push_back(text); });
  }
  std::filesystem::path Path(const std::string& name) const { return folder_.path() / name; }

  Signals signals_{SIGINT};
  TemporaryFolder folder_;
  api::SwarmJob job_;
  MachineCheck check_{.name = "joined-3", .region = "eu", .device = "cpu", .threads = 2};
  std::vector<std::string> said_;
};

TEST_F(MachineCheckTest, ItSaysWhatTheMachineIs) {
  ProbeIs("echo 'groups: [{name: joined-3, count: 1, teraflops: 0.5, memoryGiB: 8}]' >\"$5\"");
  EXPECT_TRUE(Check().ok());
  EXPECT_THAT(said_,
              ElementsAre(AllOf(HasSubstr("0.5 teraflops on layers of the model with 2 threads"),
                                HasSubstr("8 GiB of memory"), HasSubstr("/out/fleet.yaml"))));
  EXPECT_THAT(*ReadFile(Path("asked")), AllOf(HasSubstr("--name joined-3 --device cpu --threads 2"),
                                              HasSubstr("--region eu")));
}

TEST_F(MachineCheckTest, OfADeviceItSaysWhatIsFreeAndJudgesByThat) {
  check_.device = "cuda:0";
  ProbeIs(
      "echo 'groups: [{name: a, count: 1, teraflops: 30, memoryGiB: 8, deviceMemoryGiB: 24}]' "
      ">\"$5\"");
  EXPECT_TRUE(Check().ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("24 GiB free on cuda:0")));
  ProbeIs(
      "echo 'groups: [{name: a, count: 1, teraflops: 30, memoryGiB: 8, deviceMemoryGiB: 0.1}]' "
      ">\"$5\"");
  const Status status = Check();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("has 0.1 GiB: it has no room for it"));
}

TEST_F(MachineCheckTest, AMachineWithoutRoomForAStageIsNotEvenMeasured) {
  job_.spec.model.config.hidden_size = 8192;  // no machine has the memory for 4 x 10^12 parameters
  job_.spec.model.config.head_dim = 512;
  job_.spec.model.config.intermediate_size = 32768;
  job_.spec.model.config.num_hidden_layers = 4096;
  ProbeIs("exit 0");
  const Status status = Check();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("stage 0 of 1 needs"));
  EXPECT_FALSE(std::filesystem::exists(Path("asked")));
}

TEST_F(MachineCheckTest, WhatCannotBeMeasuredJoinsAllTheSame) {
  ProbeIs("echo; echo this device is none; echo; exit 2");
  EXPECT_TRUE(Check().ok());
  ProbeIs("echo 'groups: 7' >\"$5\"");
  EXPECT_TRUE(Check().ok());
  check_.program = Path("nowhere");
  EXPECT_TRUE(Check().ok());
  job_.spec.model.config = {};
  EXPECT_TRUE(Check().ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("ended with exit code 2: this device is none"),
                                 HasSubstr("groups"), HasSubstr("nowhere"),
                                 HasSubstr("home does not tell what the job computes")));
  for (const std::string& text : said_) EXPECT_THAT(text, HasSubstr("joins all the same"));
}

TEST_F(MachineCheckTest, AJobThatIsNotValidIsNotMeasuredBy) {
  job_.spec.training.microbatchSize = 7;
  ProbeIs("exit 0");
  EXPECT_TRUE(Check().ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("home tells of a job that is not valid")));
}

TEST_F(MachineCheckTest, AModelToStartFromIsAFolderOfThisMachine) {
  job_.spec.model.init = api::ModelInit::kPretrained;
  job_.spec.model.lora.rank = 4;
  ProbeIs("exit 1");
  EXPECT_TRUE(Check().ok());
  auto kept = LoadManifest(Path("out/manifest.json").string(), {});
  ASSERT_TRUE(kept.ok()) << ToString(kept.errors());
  EXPECT_TRUE(ReadKnownModel(&*kept).empty());
  EXPECT_EQ(kept->spec.model.config, job_.spec.model.config);
  EXPECT_EQ(kept->spec.model.lora, job_.spec.model.lora);
}

TEST_F(MachineCheckTest, ASignalEndsTheProbe) {
  ProbeIs("kill -INT $PPID; exec sleep 1000");
  EXPECT_EQ(Check().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace swarm::ctl
