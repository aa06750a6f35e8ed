#include "api/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/model/decoder_config.h"
#include "api/testing/test_manifest.h"

namespace swarm::api {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Paths(const std::vector<FieldError>& errors) {
  std::vector<std::string> paths;
  for (const FieldError& error : errors) paths.push_back(error.path);
  return paths;
}

TEST(ParseTest, FillsInWhatTheManifestLeavesOut) {
  const Checked<SwarmJob> job = ParseYaml(kGoodManifest);
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  EXPECT_EQ(job->name, "good");
  EXPECT_EQ(job->microbatches(), 4u);
  EXPECT_EQ(job->spec.model.config.head_dim, 16);
  EXPECT_EQ(job->spec.model.config.rope.theta, 10000.0);
  EXPECT_EQ(job->spec.workers.minReplicas, 2u);
  EXPECT_EQ(job->spec.optimizer, Optimizer());
  EXPECT_EQ(job->spec.checkpoint.intervalSteps, 100u);
}

TEST(ParseTest, WithoutReplicasThereAreMinReplicasPerStageEverywhere) {
  const Checked<SwarmJob> job = ParseGoodWith({"workers=", "pipeline.minReplicasPerStage=3"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  EXPECT_EQ(job->spec.workers.replicas, 6u);
  EXPECT_EQ(job->spec.workers.minReplicas, 6u);
}

TEST(ParseTest, AUriOfAModelMeansItsWeightsAndAUriOfATokenizerItsKind) {
  const Checked<SwarmJob> job = ParseGoodWith(
      {"model={uri: s3://models/llama, tokenizer: {uri: s3://models/tokenizer.model}}"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  EXPECT_EQ(job->spec.model.init, ModelInit::kPretrained);
  EXPECT_EQ(job->spec.model.tokenizer.kind, TokenizerKind::kSentencePiece);
  EXPECT_EQ(TokenizerAt("folder/tokenizer.json").kind, TokenizerKind::kHuggingFace);
  EXPECT_EQ(TokenizerAt("s3://models/llama").kind, TokenizerKind::kHuggingFace);
  EXPECT_EQ(TokenizerAt("").kind, TokenizerKind::kAuto);
  const Checked<SwarmJob> fresh = ParseGoodWith({"model={uri: s3://models/llama, init: Random}"});
  ASSERT_TRUE(fresh.ok()) << ToString(fresh.errors());
  EXPECT_EQ(fresh->spec.model.init, ModelInit::kRandom);
  EXPECT_EQ(fresh->spec.model.tokenizer.kind, TokenizerKind::kAuto);
}

TEST(ParseTest, ReportsAllErrorsAtOnce) {
  const Checked<SwarmJob> job = ParseGoodWith(
      {"training.microbatchsize=4", "optimizer.learningRate='fast'", "schedule.type=Cosinus",
       "metadata.name=Not_A_Label", "data=", "model.config.num_attention_heads=5"});
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(Paths(job.errors()),
              ElementsAre("spec.training.microbatchsize", "spec.optimizer.learningRate",
                          "spec.schedule.type", "metadata.name", "spec.model.config.hidden_size",
                          "spec.model.config.num_key_value_heads", "spec.data.uri"));
}

TEST(ParseTest, EachErrorSaysWhatWouldBeRight) {
  const auto first = [](std::vector<std::string> overrides) {
    const Checked<SwarmJob> job = ParseGoodWith(std::move(overrides));
    return job.ok() ? std::string() : ToString(job.errors());
  };
  EXPECT_EQ(first({"training.microbatchsize=4"}),
            "spec.training.microbatchsize: unknown field; did you mean microbatchSize?");
  EXPECT_EQ(first({"schedule.type=Cosinus"}),
            "spec.schedule.type: is \"Cosinus\"; one of Constant, Cosine, Linear, WSD, "
            "InverseSquareRoot");
  EXPECT_EQ(first({"training.stepMode=local"}),
            "spec.training.stepMode: is \"local\"; one of Sync, Delayed, Local");
  EXPECT_EQ(
      first({"training.maxSteps='5'"}),
      "spec.training.maxSteps: is \"5\", not a whole number from 0 to 2^64 - 1; write a whole "
      "number that is not negative, without quotes");
  EXPECT_EQ(
      first({"storage.zone=here"}),
      "spec.storage.zone: unknown field; known fields: endpoint, region, secretName, regions");
  EXPECT_EQ(first({"training.globalBatchSize=9"}),
            "spec.training.globalBatchSize: is 9; a multiple of microbatchSize (2)");
}

TEST(ParseTest, MemoryIsANumberOrAQuantity) {
  for (const std::string memory :
       {"6442450944", "6Gi", "'6442450944'", "6144Mi", "'6442450944.5'"}) {
    const auto job = ParseGoodWith({"pipeline.residency=Swap", "pipeline.memory.host=" + memory});
    ASSERT_TRUE(job.ok()) << ToString(job.errors());
    EXPECT_EQ((*job).spec.pipeline.memory.host, std::uint64_t{6} << 30) << memory;
  }
}

TEST(ParseTest, MemoryThatIsNoQuantityIsRefusedWithWhatWouldBeOne) {
  for (const std::string memory : {"6GB", "six", "-6Gi", "'-1'", "''", "500m", "1e999", "[6Gi]"}) {
    const auto job = ParseGoodWith({"pipeline.residency=Swap", "pipeline.memory.host=" + memory});
    ASSERT_FALSE(job.ok()) << memory;
    EXPECT_EQ(job.errors().front().path, "spec.pipeline.memory.host") << memory;
  }
  EXPECT_EQ(
      ToString(ParseGoodWith({"pipeline.residency=Swap", "pipeline.memory.host=6GB"}).errors()),
      "spec.pipeline.memory.host: is \"6GB\", not a quantity of bytes; write a whole number, or "
      "one "
      "with a unit as in 24Mi or 6Gi");
}

TEST(ParseTest, AFieldThatCannotBeReadIsNotJudgedByItsDefault) {
  const Checked<SwarmJob> job = ParseGoodWith({"model.config.hidden_size=wide"});
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(Paths(job.errors()), ElementsAre("spec.model.config.hidden_size"));
}

TEST(ParseTest, SomethingElseThanASwarmJobIsRefused) {
  EXPECT_THAT(Paths(ParseYaml("[1, 2]").errors()), testing::Contains(""));
  EXPECT_THAT(Paths(ParseYaml("").errors()), testing::Contains("apiVersion"));
  EXPECT_THAT(Paths(ParseGoodWith({"apiVersion=swarmjob.dev/v1"}).errors()),
              ElementsAre("apiVersion"));
  EXPECT_THAT(Paths(ParseGoodWith({"kind=Job"}).errors()), ElementsAre("kind"));
}

TEST(ParseTest, WhatOnlyTheOperatorReadsIsKept) {
  const Checked<SwarmJob> job = ParseGoodWith(
      {"workers.template={spec: {serviceAccountName: s3}}",
       "workers.pools=[{name: spot, maxReplicas: 3, resources: {limits: {amd.com/gpu: 1}}}]",
       "trainer={template: {metadata: {}}}", "preemption={drainSeconds: 7}",
       "failurePolicy={maxFailures: 0}", "ttlSecondsAfterFinished=60", "metadata.labels={team: a}",
       "managedBy=kueue.x-k8s.io/multikueue", "status={step: 5}"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  EXPECT_EQ(job->spec.workers.pools[0].maxReplicas, 3u);
  EXPECT_EQ(job->spec.workers.pools[0].pendingSeconds, 300u);
  EXPECT_EQ(job->spec.preemption.drainSeconds, 7u);
  EXPECT_EQ(job->spec.failurePolicy, (FailurePolicy{0, 3600}));
  EXPECT_EQ(job->spec.managedBy, "kueue.x-k8s.io/multikueue");
  const nlohmann::json written = ToJson(*job);
  EXPECT_EQ(written["spec"]["workers"]["pools"][0]["name"], "spot");
  EXPECT_EQ(written["spec"]["workers"]["template"]["spec"]["serviceAccountName"], "s3");
  EXPECT_EQ(written["spec"]["ttlSecondsAfterFinished"], 60);
  EXPECT_EQ(written["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(written["metadata"]["name"], "good");
  EXPECT_FALSE(written.contains("status"));
}

// A trainer of an earlier version refuses a field that it does not know, and this test such a field
// that would be written for all jobs.
TEST(ParseTest, AJobIsWrittenWithoutTheFieldsThatHaveTheirDefault) {
  const Checked<SwarmJob> job = ParseGoodWith(
      {"optimizer.learningRate=0.1", "workers.pools=[{name: spot, maxReplicas: 3}, {name: dear}]"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  nlohmann::json written = ToJson(*job, Defaults::kLeftOut);
  const nlohmann::json::json_pointer config("/spec/model/config");
  EXPECT_EQ(written[config], DecoderConfigToJson(job->spec.model.config)) << "its own format";
  written[config.parent_pointer()].erase("config");
  EXPECT_EQ(written, nlohmann::json::parse(R"({
    "apiVersion": "swarmjob.dev/v1alpha1",
    "kind": "SwarmJob",
    "metadata": {"name": "good"},
    "spec": {
      "model": {"init": "Random", "tokenizer": {"kind": "Byte"}},
      "data": {"uri": "corpus.txt"},
      "training": {"maxSteps": 100, "globalBatchSize": 8, "microbatchSize": 2,
                   "sequenceLength": 32, "stepMode": "Sync", "local": {"overlap": false}},
      "optimizer": {"learningRate": 0.1},
      "pipeline": {"stages": 2, "boundary": {"codec": "None"}},
      "workers": {"replicas": 5, "minReplicas": 2,
                  "pools": [{"name": "spot", "maxReplicas": 3}, {"name": "dear"}]}
    }})"));
}

TEST(ParseTest, AManifestWithoutPoolsHasOneWithoutWishes) {
  for (const std::string text : {"workers.pools=", "workers.pools=~"}) {
    const Checked<SwarmJob> job = ParseGoodWith({text});
    ASSERT_TRUE(job.ok()) << ToString(job.errors());
    EXPECT_THAT(job->spec.workers.pools, ElementsAre(Pool{.name = "default"}));
  }
}

TEST(ParseTest, AMistakeInAPoolIsReportedAtItsPlaceInTheList) {
  const Checked<SwarmJob> job =
      ParseGoodWith({"workers.pools=[{name: spot}, {nmae: x, nodeSelector: {zone: 1}}, 5]"});
  EXPECT_THAT(
      Paths(job.errors()),
      testing::IsSupersetOf({"spec.workers.pools[1].name", "spec.workers.pools[1].nmae",
                             "spec.workers.pools[1].nodeSelector.zone", "spec.workers.pools[2]"}));
}

TEST(ParseTest, ABoundaryAloneIsReadAsItWasWritten) {
  const Boundary boundary{.codec = BoundaryCodec::kAnchored,
                          .coefficients = NumberCodec::kInt8,
                          .blockSize = 64,
                          .rank = 8,
                          .anchorTokens = 3,
                          .layers = std::vector<std::uint64_t>{1, 3}};
  const Checked<Boundary> again = BoundaryFromJson(BoundaryToJson(boundary), "boundary");
  ASSERT_TRUE(again.ok()) << ToString(again.errors());
  EXPECT_EQ(*again, boundary);
}

TEST(ParseTest, ABoundaryAloneMayHaveNoNumberThatNoJobMayHave) {
  const auto paths_with = [](const char* key, const nlohmann::json& value) {
    nlohmann::json json = {{"codec", "Anchored"}, {"rank", 8}};
    json[key] = value;
    return Paths(BoundaryFromJson(json, "boundary").errors());
  };
  EXPECT_THAT(paths_with("rank", 9), IsEmpty());
  EXPECT_THAT(paths_with("rank", 0), ElementsAre("boundary.rank"));
  EXPECT_THAT(paths_with("blockSize", 0), ElementsAre("boundary.blockSize"));
  EXPECT_THAT(paths_with("blockSize", 18446744073709551615U), ElementsAre("boundary.blockSize"));
  EXPECT_THAT(paths_with("factor", 0), ElementsAre("boundary.factor"));
  EXPECT_THAT(paths_with("anchorTokens", std::uint64_t{1} << 63),
              ElementsAre("boundary.anchorTokens"));
  EXPECT_THAT(paths_with("layers", nlohmann::json::array({3, 1})),
              ElementsAre("boundary.layers[1]"));
}

TEST(ParseTest, JsonThatIsNoneIsRefused) {
  EXPECT_FALSE(FromJsonText("{").ok());
  EXPECT_FALSE(FromJsonText("[]").ok());
  EXPECT_FALSE(FromJsonText(std::string(1'000'000, '[')).ok());
  EXPECT_FALSE(FromJsonText(std::string(100, '[') + std::string(100, ']')).ok());
}

}  // namespace
}  // namespace swarm::api
