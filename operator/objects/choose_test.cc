// What a job with `stages: Auto` gets in a cluster, and what its user is asked for.
#include "operator/objects/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/objects/testing/job_under_test.h"

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

/// 12 layers of 13 M parameters and two tables of 33 M: 220 M, 6 GB with all that a worker holds.
json AutoJob(const std::string& spec) {
  json object = JobObject();
  object["spec"].merge_patch(json::parse(R"({
    "model": {"config": {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8,
                         "intermediate_size": 2816, "vocab_size": 32000}},
    "training": {"maxSteps": 3, "globalBatchSize": 64, "sequenceLength": 512},
    "pipeline": {"stages": "Auto"},
    "workers": {"replicas": 4, "minReplicas": null}})"));
  object["spec"].merge_patch(json::parse(spec));
  return object;
}

/// The job with what is chosen for it.
JobView Planned(const json& object) {
  JobView view = View(object);
  EXPECT_THAT(view.errors, IsEmpty()) << api::ToString(view.errors);
  if (!view.open) return view;
  const auto choice = ChoosePlan(view);
  if (choice.ok()) {
    TakeChoice(object, *choice, &view);
  } else {
    view.errors = choice.errors();
  }
  return view;
}
std::string RefusalOf(const std::string& spec) {
  return api::ToString(Planned(AutoJob(spec)).errors);
}

constexpr const char* kFiveGiB = R"({"workers": {"template": {"spec": {"containers": [
    {"name": "worker", "resources": {"limits": {"memory": "5Gi"}}}]}}}})";
constexpr const char* kTwoPools = R"({"workers": {"replicas": 0, "pools": [
    {"name": "spot", "maxReplicas": 4,
     "machine": {"teraflops": 10, "memoryGiB": 16, "uploadMbps": 200, "downloadMbps": 200,
                 "dollarsPerHour": 0.1}},
    {"name": "fast", "maxReplicas": 2,
     "machine": {"teraflops": 30, "memoryGiB": 24, "uploadMbps": 500, "downloadMbps": 500,
                 "dollarsPerHour": 0.5}}]}})";

TEST(ChoosePlan, ANumberOfStagesIsTheUsers) {
  const JobView view = View(JobObject());
  EXPECT_FALSE(view.open);
  EXPECT_FALSE(view.choice);
}

TEST(ChoosePlan, TheMemoryOfThePodsSaysInHowManyStagesTheModelHasRoom) {
  const JobView view = Planned(AutoJob(kFiveGiB));
  ASSERT_THAT(view.errors, IsEmpty()) << api::ToString(view.errors);
  ASSERT_TRUE(view.choice);
  EXPECT_GT(view.choice->stages, 1u);
  EXPECT_EQ(view.choice->generation, 4u);
  EXPECT_FALSE(view.choice->tokensPerSecond) << "nothing says how fast a worker is";
  EXPECT_EQ(view.job.spec.pipeline.stages, view.choice->stages);
  EXPECT_EQ(view.job.spec.workers.minReplicas, view.choice->stages) << "a default that follows";
  EXPECT_EQ(view.job.spec.training, View(AutoJob("{}")).job.spec.training) << "not chosen";
}

TEST(ChoosePlan, APoolThatHasLessCountsForAllWorkers) {
  const JobView view = Planned(AutoJob(R"({"workers": {"pools": [
      {"name": "large", "resources": {"limits": {"memory": "64Gi"}}},
      {"name": "small", "resources": {"requests": {"memory": "5Gi"}}}]}})"));
  ASSERT_TRUE(view.choice);
  EXPECT_GT(view.choice->stages, 1u);
}

TEST(ChoosePlan, WithMachinesAllThatIsOpenIsChosenAndPredicted) {
  const JobView view = Planned(AutoJob(kTwoPools));
  ASSERT_THAT(view.errors, IsEmpty()) << api::ToString(view.errors);
  ASSERT_TRUE(view.choice);
  EXPECT_TRUE(view.choice->stepMode);
  EXPECT_NE(view.choice->stepMode, api::StepMode::kLocal) << "it trains differently";
  EXPECT_TRUE(view.choice->microbatchSize);
  EXPECT_TRUE(view.choice->replicas);
  EXPECT_GT(view.choice->tokensPerSecond, 0.0);
  EXPECT_GT(view.choice->dollarsPerBillionTokens, 0.0);
  EXPECT_FALSE(view.choice->limitedBy.empty());
  EXPECT_EQ(view.job.spec.training.stepMode, view.choice->stepMode);
  EXPECT_EQ(view.job.spec.workers.replicas, view.choice->replicas);
}

TEST(ChoosePlan, WhatTheManifestSaysIsKept) {
  json object = AutoJob(kTwoPools);
  object["spec"]["training"]["microbatchSize"] = 2;
  object["spec"]["training"]["stepMode"] = "Sync";
  object["spec"]["pipeline"]["boundary"]["codec"] = "None";
  object["spec"]["workers"]["replicas"] = 5;
  const JobView view = Planned(object);
  ASSERT_TRUE(view.choice);
  EXPECT_FALSE(view.choice->microbatchSize);
  EXPECT_FALSE(view.choice->stepMode);
  EXPECT_FALSE(view.choice->codec);
  EXPECT_EQ(view.job.spec.training.microbatchSize, 2u);
  EXPECT_EQ(view.job.spec.workers.replicas, 5u);
}

TEST(ChoosePlan, AJobThatFitsInNoWayIsToldWhatWouldMakeItFit) {
  const std::string refusal = RefusalOf(R"({"workers": {"replicas": 2, "pools": [
      {"name": "tiny", "machine": {"teraflops": 1, "memoryGiB": 0.5}}]}})");
  EXPECT_THAT(refusal, HasSubstr("spec.pipeline.stages: is Auto, and no number of stages has room"
                                 " in the machines of spec.workers.pools; "));
  EXPECT_THAT(refusal, HasSubstr("memory of "));
  EXPECT_THAT(refusal, HasSubstr(" in machines tiny, instead of 0.5 GiB"));
}

TEST(ChoosePlan, WhatIsMissingForAPlanIsAskedFor) {
  EXPECT_THAT(RefusalOf("{}"), HasSubstr("memory of the workers in pool default; give"
                                         " resources.limits.memory"));
  EXPECT_THAT(RefusalOf(R"({"workers": {"replicas": 0}})"),
              HasSubstr("how many workers there may be; give workers.replicas"));
  EXPECT_THAT(RefusalOf(R"({"model": {"config": null, "uri": "s3://bucket/model"}})"),
              HasSubstr("does not read the model"));
}

TEST(ChoosePlan, TheMemoryOfADeviceIsInNoPod) {
  json pools = json::parse(R"([{"name": "gpus", "resources": {
      "limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}}}])");
  EXPECT_THAT(RefusalOf(json{{"workers", {{"pools", pools}}}}.dump()),
              HasSubstr("memory of the devices in pool gpus"));
  pools[0]["machine"] = {{"teraflops", 30}};
  EXPECT_THAT(RefusalOf(json{{"workers", {{"pools", pools}}}}.dump()),
              HasSubstr("deviceMemoryGiB"));
  pools[0]["machine"]["deviceMemoryGiB"] = 24;
  EXPECT_THAT(RefusalOf(json{{"workers", {{"pools", pools}}}}.dump()), IsEmpty());
}

TEST(ChoosePlan, AChoiceStaysOnceTheJobHasStarted) {
  json object = AutoJob(kFiveGiB);
  object["status"] = {{"plan", {{"choice", {{"generation", 3}, {"stages", 7}, {"replicas", 7}}}}}};
  EXPECT_TRUE(View(object).open) << "it was for another manifest";
  object["metadata"]["generation"] = 3;
  EXPECT_FALSE(View(object).open);
  object["metadata"]["generation"] = 8;
  object["status"]["trainer"] = {{"term", 1}};
  object["spec"]["workers"]["replicas"] = 9;
  const JobView view = View(object);
  EXPECT_FALSE(view.open);
  ASSERT_TRUE(view.choice);
  EXPECT_EQ(view.job.spec.pipeline.stages, 7u);
  EXPECT_EQ(view.job.spec.workers.replicas, 9u) << "the user has scaled it since";
}

TEST(ChoosePlan, AStepModeWithWhichTrainingBeganStays) {
  json object = AutoJob(kTwoPools);
  object["status"] = {{"trainer", {{"term", 2}}}};
  const JobView view = View(object);
  ASSERT_TRUE(view.open) << "it had a number of stages until now";
  EXPECT_FALSE(view.open->step_mode);
  EXPECT_TRUE(view.open->codec);
}

}  // namespace
}  // namespace swarm::objects
