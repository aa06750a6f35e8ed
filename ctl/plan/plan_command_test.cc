#include "ctl/plan/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "ctl/manifest_file.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kManifest = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: planned}
spec:
  model:
    config: {hidden_size: 1024, num_hidden_layers: 12, num_attention_heads: 8,
             intermediate_size: 4096, vocab_size: 32000}
  data: {uri: corpus.txt}
  training: {maxSteps: 3, globalBatchSize: 64, sequenceLength: 512}
  pipeline: {boundary: {blockSize: 128}}
)";

constexpr const char* kFleet = R"(
groups:
  - {name: fast, count: 2, region: eu, teraflops: 30, memoryGiB: 16, dollarsPerHour: 0.5, lossesPerHour: 1, returnSeconds: 60}
  - {name: slow, count: 4, region: us, teraflops: 10, memoryGiB: 16, dollarsPerHour: 0.1}
links:
  - {between: ["*", "*"], roundTripMs: 1, mbps: 1000}
  - {between: [eu, us], roundTripMs: 80, mbps: 100, dollarsPerGB: 0.02}
trainerRegion: eu
)";

class PlanCommandTest : public testing::Test {
 protected:
  PlanCommandTest() {
    Write("job.yaml", kManifest);
    Write("fleet.yaml", kFleet);
    options_.manifest = Path("job.yaml");
    options_.fleet = Path("fleet.yaml");
  }
  std::string Path(const std::string& name) { return (folder_.path() / name).string(); }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(Path(name), text).ok());
  }
  json Json() {
    options_.json = true;
    out_.str("");
    EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk) << err_.str();
    return json::parse(out_.str());
  }

  TemporaryFolder folder_;
  PlanOptions options_;
  std::ostringstream out_, err_;
};

TEST_F(PlanCommandTest, PrintsThePlanAndWhatIsBesideIt) {
  ASSERT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("\ntokens/s  "));
  EXPECT_THAT(out_.str(), HasSubstr("\nbound by  "));
  EXPECT_THAT(out_.str(), HasSubstr("would win with: "));
  EXPECT_THAT(out_.str(), HasSubstr("\"replicas\": "));
}

TEST_F(PlanCommandTest, ThePlannedManifestIsAJobOfThatPlan) {
  options_.write = Path("planned.json");
  const json best = Json()["plans"][0];
  const auto job = LoadManifest(Path("planned.json"), {});
  ASSERT_TRUE(job.ok()) << api::ToString(job.errors());
  EXPECT_EQ(job->spec.pipeline.stages, best["stages"].size());
  EXPECT_EQ(job->spec.pipeline.boundary.blockSize, 128u) << "what the user wrote stays";
  std::uint64_t machines = 0;
  for (const json& stage : best["stages"]) machines += stage["machines"].get<std::uint64_t>();
  EXPECT_EQ(job->spec.workers.replicas, machines);
}

TEST_F(PlanCommandTest, WhatTheManifestSaysIsKept) {
  options_.overrides = {"pipeline.stages=2", "pipeline.boundary.codec=BF16",
                        "training.stepMode=Sync", "training.microbatchSize=2",
                        "workers.replicas=4"};
  const json plans = Json()["plans"];
  ASSERT_EQ(plans.size(), 1u);
  const json spec = plans[0]["manifest"]["spec"];
  EXPECT_EQ(spec["pipeline"]["stages"], 2);
  EXPECT_EQ(spec["pipeline"]["boundary"]["codec"], "BF16");
  EXPECT_EQ(spec["training"], json({{"stepMode", "Sync"}, {"microbatchSize", 2}}));
  EXPECT_EQ(spec["workers"]["replicas"], 4);
}

TEST_F(PlanCommandTest, ThePlanOfTheLeastCostIsNotTheFastest) {
  const json fastest = Json()["plans"][0];
  options_.goal = planner::Goal::kTokensPerDollar;
  const json cheapest = Json()["plans"][0];
  EXPECT_GE(cheapest["tokensPerDollar"], fastest["tokensPerDollar"]);
  EXPECT_LT(cheapest["tokensPerSecond"], fastest["tokensPerSecond"]);
}

TEST_F(PlanCommandTest, AModelThatDoesNotFitIsSwapped) {
  Write("fleet.yaml",
        "groups: [{name: small, count: 1, teraflops: 0.1, memoryGiB: 3, diskMBps: 800}]");
  options_.write = Path("planned.json");
  const json best = Json()["plans"][0];
  EXPECT_EQ(best["manifest"]["spec"]["pipeline"]["residency"], "Swap");
  EXPECT_GT(best["updateSeconds"], 0.0);
  const auto job = LoadManifest(Path("planned.json"), {});
  ASSERT_TRUE(job.ok()) << api::ToString(job.errors());
  EXPECT_EQ(job->spec.pipeline.residency, api::Residency::kSwap);
  options_.json = false;
  out_.str("");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("  swapped\n"));
  EXPECT_THAT(out_.str(), HasSubstr(", update "));
}

TEST_F(PlanCommandTest, EachRateThatAProbeMeasuresCounts) {
  const auto step_seconds = [&](const std::string& machine, const std::string& other = "") {
    Write("fleet.yaml", "groups: [{name: m, count: 1, " + machine + other + "}]");
    return Json()["plans"][0]["stepSeconds"].get<double>();
  };
  const std::string cpu = "teraflops: 0.1, memoryGiB: 3, diskMBps: 8000";
  const double on_disk = step_seconds(cpu);
  EXPECT_GT(step_seconds(cpu, ", diskSecondsPerGiB: 2"), 1.01 * on_disk);
  EXPECT_GT(step_seconds(cpu, ", updateMillions: 1"), 1.01 * on_disk);
  const std::string gpu = "teraflops: 30, memoryGiB: 64, deviceMemoryGiB: 3.1";
  const double beside_device = step_seconds(gpu);
  for (const char* slow :
       {"toDeviceMBps: 100", "fromDeviceMBps: 100", "memoryMBps: 100", "updateMillions: 1"}) {
    EXPECT_GT(step_seconds(gpu, std::string(", ") + slow), 1.01 * beside_device) << slow;
  }
  Write("fleet.yaml", "groups: [{name: m, count: 1, " + cpu + ", updateMillions: -1}]");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("groups[0]: has a negative number"));
}

TEST_F(PlanCommandTest, AModelThatNoDeviceHoldsIsSwappedBesideItAndTheRowsSayHow) {
  Write("fleet.yaml",
        "groups: [{name: gpu, count: 1, teraflops: 30, memoryGiB: 64, deviceMemoryGiB: 3.1, "
        "toDeviceMBps: 20000, fromDeviceMBps: 20000, memoryMBps: 10000, updateMillions: 500}]");
  const json best = Json()["plans"][0];
  EXPECT_EQ(best["manifest"]["spec"]["pipeline"]["residency"], "Swap");
  const json swap = best["stages"][0]["swap"];
  EXPECT_EQ(swap["inMemory"], true);
  EXPECT_GE(swap["passSeconds"], swap["computeSeconds"]);
  options_.json = false;
  out_.str("");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr(" together, state in the memory of the host; passes "));
  EXPECT_THAT(out_.str(), HasSubstr("; update "));
}

TEST_F(PlanCommandTest, AdaptersFitWhereTheWholeModelDoesNot) {
  const std::string folder = (folder_.path() / "model").string();
  std::filesystem::create_directory(folder);
  Write("model/config.json", R"({"model_type": "llama", "hidden_act": "silu", "hidden_size": 1024,
      "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 8,
      "intermediate_size": 4096, "vocab_size": 32000, "rms_norm_eps": 1e-6})");
  Write("fleet.yaml", "groups: [{name: small, count: 1, teraflops: 0.1, memoryGiB: 5}]");
  options_.overrides = {"model={uri: " + folder + ", tokenizer: {kind: Byte}}"};
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kFailed);
  options_.overrides = {"model={uri: " + folder +
                        ", tokenizer: {kind: Byte}, lora: {rank: 8, targets: [q_proj]}}"};
  const json best = Json()["plans"][0];
  EXPECT_EQ(best["stages"].size(), 1u);
  // The model, and of each layer's matrix of 1024 x 1024 an adapter of rank 8.
  EXPECT_EQ(best["stages"][0]["parameters"],
            12 * (16 * 1024 * 1024 + 2 * 1024) + 2 * 32000 * 1024 + 1024 + 12 * 8 * 2048);
}

TEST_F(PlanCommandTest, RoundsOfLocalStepsAreSaidToOverlap) {
  options_.overrides = {"training.stepMode=Local", "training.local.innerSteps=4",
                        "training.microbatchSize=2"};
  options_.write = Path("planned.json");
  const json plans = Json()["plans"];
  for (const json& plan : plans) {
    EXPECT_EQ(plan["manifest"]["spec"]["training"]["stepMode"], "Local");
  }
  const auto job = LoadManifest(Path("planned.json"), {});
  ASSERT_TRUE(job.ok()) << api::ToString(job.errors());
  EXPECT_EQ(job->spec.training.local.overlap,
            plans[0]["manifest"]["spec"]["training"].contains("local"));
}

TEST_F(PlanCommandTest, RatesOfLinesAreStudiedInsteadOfPlans) {
  options_.overrides = {"training.microbatchSize=1"};
  options_.link_rates = "20,30";
  ASSERT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("Sync replicas"));
  EXPECT_THAT(out_.str(), HasSubstr("curves that cross:\n"));
  options_.link_rates = "10,1000";
  options_.plot = Path("links.svg");
  const json study = Json();
  ASSERT_EQ(study["linkRates"].size(), 2u);
  const json slow = study["linkRates"][0]["plans"], fast = study["linkRates"][1]["plans"];
  EXPECT_EQ(slow.size(), 5u);
  for (const auto& [manner, plan] : slow.items()) {
    EXPECT_GE(fast[manner]["tokensPerSecond"], 0.99 * plan["tokensPerSecond"].get<double>())
        << manner;
  }
  EXPECT_EQ(fast["DelayedPipeline"]["manifest"]["spec"]["training"]["stepMode"], "Delayed");
  EXPECT_GE(fast["DelayedPipeline"]["stages"].size(), 2u);
  EXPECT_THAT(*ReadFile(Path("links.svg")), HasSubstr(">planned</text>"));
}

TEST_F(PlanCommandTest, RefusesWhatIsNoRateOfALine) {
  options_.link_rates = "10,fast";
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("'fast' is no rate of a line"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(PlanCommandTest, AJobThatFitsInNoMannerIsToldWhy) {
  Write("fleet.yaml", "groups: [{name: tiny, count: 2, teraflops: 1, memoryGiB: 0.5}]");
  options_.link_rates = "10";
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("  Sync pipeline: it does not fit; it would with memory of "));
}

TEST_F(PlanCommandTest, AFleetOfASimulationServesToo) {
  Write("fleet.yaml", std::string(kFleet) + "job: {stages: 2}\nseconds: 100\n");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kOk) << err_.str();
}

TEST_F(PlanCommandTest, RefusesAJobThatFitsNowhere) {
  Write("fleet.yaml", "groups: [{name: tiny, count: 2, teraflops: 1, memoryGiB: 0.5}]");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("the job fits on no machines of "));
  EXPECT_THAT(err_.str(), HasSubstr("it would with memory of "));
}

TEST_F(PlanCommandTest, SaysWhatCannotBePlannedWith) {
  Write("fleet.yaml", "groups: [{name: t, count: 2, microbatchSeconds: 1}]");
  EXPECT_EQ(PlanJob(options_, out_, err_), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("groups[0].teraflops"));
}

}  // namespace
}  // namespace swarm::ctl
