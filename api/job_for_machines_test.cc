#include "api/job_for_machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/parse.h"
#include "base/status.h"

namespace swarm::api {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kJob = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: tiny, labels: {team: secret-team}}
spec:
  budget: {dollars: 5}
  model: {config: {hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 64, vocab_size: 100000}}
  data: {uri: "s3://secret-bucket/text", documents: Separate, validationUri: "s3://secret-bucket/v"}
  storage: {endpoint: "https://secret.example", secretName: secret-keys}
  checkpoint: {uri: "s3://secret-bucket/runs"}
  training: {maxSteps: 10, globalBatchSize: 6, microbatchSize: 2, sequenceLength: 16, precision: BF16}
  optimizer: {type: LAMB}
  pipeline: {stages: 2, residency: Swap, memory: {scratch: /secret-disk}}
  workers:
    replicas: 5
    template: {spec: {containers: [{name: worker, env: [{name: PASSWORD, value: secret-word}]}]}}
    pools: [{name: secret-pool, machine: {teraflops: 1, dollarsPerHour: 2}}]
)";

SwarmJob Job(const std::vector<std::string>& overrides = {}) {
  auto job = ParseYaml(kJob, overrides);
  SWARM_CHECK(job.ok(), ToString(job.errors()));
  return *job;
}

TEST(JobForMachinesTest, ItHasWhatAWorkerComputesAndIsAValidManifest) {
  const SwarmJob job = Job();
  const auto told = ParseYaml(JobForMachines(job));
  ASSERT_TRUE(told.ok()) << ToString(told.errors());
  EXPECT_EQ(told->name, "tiny");
  EXPECT_EQ(told->spec.model, job.spec.model);
  EXPECT_EQ(told->spec.training, job.spec.training);
  EXPECT_EQ(told->spec.optimizer, job.spec.optimizer);
  EXPECT_EQ(told->spec.data.documents, DocumentView::kSeparate);
  EXPECT_EQ(told->spec.pipeline.stages, 2u);
  EXPECT_EQ(told->spec.pipeline.residency, Residency::kSwap);
  EXPECT_EQ(told->spec.workers.replicas, 5u);
}

TEST(JobForMachinesTest, ItHasNoPlacesSecretsPodsAndPrices) {
  EXPECT_THAT(JobForMachines(Job()), Not(HasSubstr("secret")));
  EXPECT_THAT(JobForMachines(Job()), Not(HasSubstr("dollars")));
}

TEST(JobForMachinesTest, OfAModelThatWasReadItHasTheConfigAndNotTheFolder) {
  SwarmJob job = Job({"model.config=", "model.uri=s3://secret-bucket/model", "model.lora.rank=4"});
  EXPECT_THAT(JobForMachines(job), IsEmpty()) << "nobody has read it";
  job.spec.model.config = Job().spec.model.config;
  const std::string text = JobForMachines(job);
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  const auto told = FromJsonText(text);
  ASSERT_TRUE(told.ok()) << ToString(told.errors());
  EXPECT_EQ(told->spec.model.init, ModelInit::kPretrained);
  EXPECT_EQ(told->spec.model.config, job.spec.model.config);
  EXPECT_EQ(told->spec.model.lora, job.spec.model.lora);
}

TEST(JobForMachinesTest, NoTextIsLongerThanAMessageHasRoomFor) {
  SwarmJob job = Job();
  job.spec.pipeline.boundary.layers = std::vector<std::uint64_t>(10'000, 123);
  EXPECT_THAT(JobForMachines(job), IsEmpty());
}

}  // namespace
}  // namespace swarm::api
