#include "api/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model/memory.h"
#include "api/testing/test_manifest.h"

namespace swarm::api {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::SizeIs;

struct Wrong {
  std::vector<std::string> overrides;
  std::string path;
};

// One mistake each, and where it must be reported.
const std::vector<Wrong> kWrong = {
    {{"metadata.name="}, "metadata.name"},
    {{"metadata.name=Upper"}, "metadata.name"},
    {{"metadata.name=-edge"}, "metadata.name"},
    {{"metadata.name=" + std::string(53, 'a')}, "metadata.name"},
    {{"metadata.name='1st'"}, "metadata.name"},
    {{"metadata.name=a.b"}, "metadata.name"},
    {{"metadata.nmae=x"}, "metadata.nmae"},
    {{"spec=5"}, "spec"},
    {{"model.config="}, "spec.model.config"},
    {{"model.uri=s3://a/b"}, "spec.model.config"},
    {{"model.uri=https://a/b", "model.config="}, "spec.model.uri"},
    {{"model.uri=s3://", "model.config="}, "spec.model.uri"},
    {{"model.uri=gs://a/b", "model.config="}, "spec.model.uri"},
    {{"checkpoint.uri=abfs://a@b/c"}, "spec.checkpoint.uri"},
    {{"data.uri=gs://"}, "spec.data.uri"},
    {{"model.uri=file://a", "model.config="}, "spec.model.uri"},
    {{"model.init=Pretrained"}, "spec.model.init"},
    {{"model.tokenizer.kind=SentencePiece"}, "spec.model.tokenizer.uri"},
    {{"model.tokenizer.kind=HuggingFace"}, "spec.model.tokenizer.uri"},
    {{"model.tokenizer={kind: Auto, uri: a}"}, "spec.model.tokenizer.uri"},
    {{"model.tokenizer.uri=a.model"}, "spec.model.tokenizer.uri"},
    {{"model.config.hidden_size=66"}, "spec.model.config.hidden_size"},
    {{"model.config.num_key_value_heads=3"}, "spec.model.config.num_key_value_heads"},
    {{"model.config.num_attention_heads=0"}, "spec.model.config.num_attention_heads"},
    {{"model.config.num_attention_heads=-4"}, "spec.model.config.num_attention_heads"},
    {{"model.config.head_dim=15"}, "spec.model.config.head_dim"},
    {{"model.config.vocab_size=255"}, "spec.model.config.vocab_size"},
    {{"model.config.rms_norm_eps=0"}, "spec.model.config.rms_norm_eps"},
    {{"model.config.rope_theta=.inf"}, "spec.model.config.rope_theta"},
    {{"model.config.hidden_act=gelu"}, "spec.model.config.hidden_act"},
    {{"model.config.rope_scaling={factor: 2}"}, "spec.model.config.rope_scaling.factor"},
    {{"model.config.num_experts=8"}, "spec.model.config.num_experts"},
    {{"data.uri=''"}, "spec.data.uri"},
    {{"data.uri="}, "spec.data.uri"},
    {{"data.sources=[{uri: a}]"}, "spec.data.sources"},
    {{"data={sources: []}"}, "spec.data.sources"},
    {{"data={sources: [{weight: 2}]}"}, "spec.data.sources[0].uri"},
    {{"data={sources: [{uri: a}, {uri: 'ftp://b/c'}]}"}, "spec.data.sources[1].uri"},
    {{"data={sources: [{uri: a, weight: 0}]}"}, "spec.data.sources[0].weight"},
    {{"data={sources: [{uri: a, weight: .inf}]}"}, "spec.data.sources[0].weight"},
    {{"data={sources: [{uri: a.txt}, {uri: b.bin}]}", "model.config.vocab_size=70000"},
     "spec.data.tokenType"},
    {{"data.cacheBytes=1000"}, "spec.data.cacheBytes"},
    {{"data.uri=ftp://a/b"}, "spec.data.uri"},
    {{"data.textField=''"}, "spec.data.textField"},
    {{"data.onBadDocument=Ignore"}, "spec.data.onBadDocument"},
    {{"data.format=ShareGPT"}, "spec.data.format"},
    {{"data.documents=Apart"}, "spec.data.documents"},
    {{"data.documents=Separate", "pipeline.boundary={codec: Anchored, rank: 8, anchorTokens: 2}"},
     "spec.data.documents"},
    {{"data.validationUri=ftp://a/b"}, "spec.data.validationUri"},
    {{"data.validationUri=a.txt", "training.validationSequences=1"},
     "spec.training.validationSequences"},
    {{"data.uri=a.bin", "model.config.vocab_size=70000"}, "spec.data.tokenType"},
    {{"training.maxSteps=0"}, "spec.training.maxSteps"},
    {{"training.maxSteps=-1"}, "spec.training.maxSteps"},
    {{"training.maxSteps=1.5"}, "spec.training.maxSteps"},
    {{"training.maxSteps=1e18"}, "spec.training.maxSteps"},
    {{"training.globalBatchSize=3"}, "spec.training.globalBatchSize"},
    {{"training.microbatchSize=0"}, "spec.training.microbatchSize"},
    {{"training.sequenceLength=4096"}, "spec.training.sequenceLength"},
    {{"training.sequenceLength="}, "spec.training.sequenceLength"},
    {{"training.maxGradNorm=-1"}, "spec.training.maxGradNorm"},
    {{"training.maxGradNorm=.nan"}, "spec.training.maxGradNorm"},
    {{"training.accumulation=Double"}, "spec.training.accumulation"},
    {{"training.reduceCodec=Int2"}, "spec.training.reduceCodec"},
    {{"training.accumulation=Exact", "training.reduceCodec=BF16"}, "spec.training.reduceCodec"},
    {{"training.audit.fraction=0.01"}, "spec.training.audit.fraction"},
    {{"training.accumulation=Exact", "training.audit.fraction=1.01"},
     "spec.training.audit.fraction"},
    {{"training.accumulation=Exact", "training.audit.fraction=0.01", "pipeline.residency=Swap"},
     "spec.training.audit.fraction"},
    {{"training.precision=bf16"}, "spec.training.precision"},
    {{"training.precision=FP8"}, "spec.training.precision"},
    {{"training.seed=true"}, "spec.training.seed"},
    {{"optimizer.type=SGD"}, "spec.optimizer.type"},
    {{"optimizer.learningRate=0"}, "spec.optimizer.learningRate"},
    {{"optimizer.betas=[0.9, 1]"}, "spec.optimizer.betas[1]"},
    {{"optimizer.betas=[-0.1, 0.9]"}, "spec.optimizer.betas[0]"},
    {{"optimizer.betas=0.9"}, "spec.optimizer.betas"},
    {{"optimizer.betas=[a, 0.9]"}, "spec.optimizer.betas[0]"},
    {{"optimizer.epsilon=0"}, "spec.optimizer.epsilon"},
    {{"optimizer.epsilon=1e-50"}, "spec.optimizer.epsilon"},
    {{"optimizer.epsilon=2"}, "spec.optimizer.epsilon"},
    {{"schedule.warmupSteps=101"}, "spec.schedule.warmupSteps"},
    {{"schedule.finalFraction=2"}, "spec.schedule.finalFraction"},
    {{"schedule.type=WSD"}, "spec.schedule.decaySteps"},
    {{"schedule.type=WSD", "schedule.warmupSteps=50", "schedule.decaySteps=51"},
     "spec.schedule.decaySteps"},
    {{"schedule.decaySteps=5"}, "spec.schedule.decaySteps"},
    {{"training.zLoss=-1"}, "spec.training.zLoss"},
    {{"training.dropout=0.1"}, "spec.training.dropout"},
    {{"optimizer.momentum=1"}, "spec.optimizer.momentum"},
    {{"pipeline.stages=5"}, "spec.pipeline.stages"},
    {{"pipeline.stages=0"}, "spec.pipeline.stages"},
    {{"pipeline.residency=Paged"}, "spec.pipeline.residency"},
    {{"pipeline.memory.host=1000000"}, "spec.pipeline.memory.host"},
    {{"pipeline.memory.device=1000000"}, "spec.pipeline.memory.device"},
    {{"pipeline.memory.scratch=/tmp"}, "spec.pipeline.memory.scratch"},
    {{"pipeline.residency=Swap", "pipeline.memory.host=1125899906842625"},
     "spec.pipeline.memory.host"},
    {{"pipeline.residency=Swap", "pipeline.memory.host=1.5Pi"}, "spec.pipeline.memory.host"},
    {{"pipeline.residency=Swap", "pipeline.memory.host=1Ki"}, "spec.pipeline.memory.host"},
    {{"pipeline.residency=Swap", "pipeline.memory.device=1125899906842625"},
     "spec.pipeline.memory.device"},
    {{"pipeline.residency=Swap", "pipeline.memory.scratch=scratch"},
     "spec.pipeline.memory.scratch"},
    {{"pipeline.residency=Swap", "pipeline.shardUpdate=Moments"}, "spec.pipeline.shardUpdate"},
    {{"pipeline.residency=Swap", "pipeline.boundary.codec=Bottleneck",
      "pipeline.boundary.factor=8"},
     "spec.pipeline.boundary.codec"},
    {{"training.local.innerSteps=3"}, "spec.training.local"},
    {{"training.stepMode=Local", "pipeline.stages=1", "training.local.innerSteps=0"},
     "spec.training.local.innerSteps"},
    {{"training.stepMode=Local", "pipeline.stages=1", "training.local.innerSteps=3"},
     "spec.training.local.innerSteps"},
    {{"training.stepMode=Local", "pipeline.stages=1",
      "training.local={innerSteps: 1, microbatches: 3}"},
     "spec.training.local.innerSteps"},
    {{"training.stepMode=Local", "pipeline.stages=1",
      "training.local={innerSteps: 1, microbatches: 0}"},
     "spec.training.local.microbatches"},
    {{"training.stepMode=Local", "pipeline.stages=1",
      "training.local={innerSteps: 1, "
      "outerLearningRate: 0}"},
     "spec.training.local.outerLearningRate"},
    {{"training.stepMode=Local", "pipeline.stages=1",
      "training.local={innerSteps: 1, "
      "outerMomentum: 1}"},
     "spec.training.local.outerMomentum"},
    {{"training.stepMode=Local", "pipeline.stages=1",
      "training.local={innerSteps: 1, fragments: 65}"},
     "spec.training.local.fragments"},
    {{"training.stepMode=Local", "training.local.innerSteps=1",
      "model.config.tie_word_embeddings=true"},
     "spec.pipeline.stages"},
    {{"training.stepMode=Local", "pipeline.stages=1", "training.local.innerSteps=1",
      "training.accumulation=Exact"},
     "spec.training.accumulation"},
    {{"training.stepMode=Local", "pipeline.stages=1", "training.local.innerSteps=1",
      "pipeline.shardUpdate=Moments"},
     "spec.pipeline.shardUpdate"},
    {{"pipeline.inFlightMax=1048577"}, "spec.pipeline.inFlightMax"},
    {{"pipeline.boundary.codec=subspace"}, "spec.pipeline.boundary.codec"},
    {{"pipeline.boundary.codec=Subspace"}, "spec.pipeline.boundary.rank"},
    {{"pipeline.boundary.codec=Anchored", "pipeline.boundary.rank=9999"},
     "spec.pipeline.boundary.rank"},
    {{"pipeline.boundary.codec=Bottleneck", "pipeline.boundary.factor=7"},
     "spec.pipeline.boundary.factor"},
    {{"pipeline.boundary.coefficients=Maxout"}, "spec.pipeline.boundary.coefficients"},
    {{"pipeline.boundary.tableRank=4"}, "spec.pipeline.boundary.tableRank"},
    {{"pipeline.boundary.anchorTokens=4"}, "spec.pipeline.boundary.anchorTokens"},
    {{"pipeline.boundary.codec=Anchored", "pipeline.boundary.rank=8",
      "pipeline.boundary.anchorTokens=0"},
     "spec.pipeline.boundary.anchorTokens"},
    {{"pipeline.boundary.constrainLast=true"}, "spec.pipeline.boundary.constrainLast"},
    {{"pipeline.boundary.refreshSteps=10"}, "spec.pipeline.boundary.refreshSteps"},
    {{"pipeline.boundary.learningRateScale=-0.1"}, "spec.pipeline.boundary.learningRateScale"},
    {{"pipeline.boundary.refreshRate=-1"}, "spec.pipeline.boundary.refreshRate"},
    {{"pipeline.boundary.layers=[0]"}, "spec.pipeline.boundary.layers[0]"},
    {{"pipeline.boundary.layers=[2, 1]"}, "spec.pipeline.boundary.layers[1]"},
    {{"pipeline.boundary.layers=[99]"}, "spec.pipeline.boundary.layers"},
    {{"pipeline.boundary.sharedLayers=true", "pipeline.boundary.layers=[]"},
     "spec.pipeline.stages"},
    {{"pipeline.boundary.codec=Int8", "pipeline.boundary.layers=[]"}, "spec.pipeline.stages"},
    {{"pipeline.boundary.codec=BF16", "pipeline.boundary.layers=[2]", "pipeline.stages=3"},
     "spec.pipeline.stages"},
    {{"pipeline.boundary.codec=Int8Dynamic", "pipeline.boundary.layers=[1, 2]",
      "pipeline.stages=4"},
     "spec.pipeline.stages"},
    {{"pipeline.boundary.gradientCodec=BF16", "pipeline.boundary.layers=[]"},
     "spec.pipeline.stages"},
    {{"pipeline.boundary.gradientCodec=int8"}, "spec.pipeline.boundary.gradientCodec"},
    {{"pipeline.boundary.blockSize=0"}, "spec.pipeline.boundary.blockSize"},
    {{"pipeline.boundary.rank=64"}, "spec.pipeline.boundary.rank"},
    {{"pipeline.boundary=None"}, "spec.pipeline.boundary"},
    {{"pipeline.minReplicasPerStage=3"}, "spec.workers.replicas"},
    {{"workers.replicas=1"}, "spec.workers.replicas"},
    {{"workers.minReplicas=6"}, "spec.workers.minReplicas"},
    {{"workers.minReplicas=1"}, "spec.workers.minReplicas"},
    {{"workers.memoryBudgetBytes=1000"}, "spec.workers.memoryBudgetBytes"},
    {{"workers.memoryBudgetBytes=1125899906842625"}, "spec.workers.memoryBudgetBytes"},
    {{"checkpoint.intervalSteps=0"}, "spec.checkpoint.intervalSteps"},
    {{"checkpoint.keepLast=0"}, "spec.checkpoint.keepLast"},
    {{"checkpoint.uri=http://a"}, "spec.checkpoint.uri"},
    {{"training.seed=9223372036854775808"}, "spec.training.seed"},
    {{"storage.secretName=My_Keys"}, "spec.storage.secretName"},
    {{"storage.regions=[{region: eu}]"}, "spec.storage.regions[0]"},
    {{"storage.regions=[{region: '', checkpointUri: a}]"}, "spec.storage.regions[0].region"},
    {{"storage.regions=[{region: eu, checkpointUri: a}, {region: eu, checkpointUri: b}]"},
     "spec.storage.regions[1].region"},
    {{"storage.regions=[{region: eu-1, checkpointUri: a}, {region: eu.1, checkpointUri: b}]"},
     "spec.storage.regions[1].region"},
    {{"storage.regions=[{region: eu, checkpointUri: a}, {region: us, checkpointUri: a/}]"},
     "spec.storage.regions[1].checkpointUri"},
    {{"storage.regions=[{region: eu, checkpointUri: 'gs://a/b'}]"},
     "spec.storage.regions[0].checkpointUri"},
    {{"storage.regions=[{region: eu, dataUris: ['http://a']}]"},
     "spec.storage.regions[0].dataUris[0]"},
    {{"storage.regions=[{region: eu, dataUris: [a, b]}]"}, "spec.storage.regions[0].dataUris"},
    {{"storage.regions=[{region: eu, validationUri: a}]"}, "spec.storage.regions[0].validationUri"},
    {{"checkpoint.uri=a", "storage.regions=[{region: eu, checkpointUri: a, endpoint: 'http://b'}]"},
     "spec.storage.regions[0]"},
    {{"storage.regions=[{region: eu, checkpointUri: a, secretName: My_Keys}]"},
     "spec.storage.regions[0].secretName"},
    {{"managedBy=somebody"}, "spec.managedBy"},
    {{"managedBy=a.b/"}, "spec.managedBy"},
    {{"workers.pools=[]"}, "spec.workers.pools"},
    {{"workers.pools={}"}, "spec.workers.pools"},
    {{"workers.pools=[{name: a, maxReplicas: 1}]"}, "spec.workers.pools"},
    {{"workers.pools=[{name: a}, {name: a}]"}, "spec.workers.pools[1].name"},
    {{"workers.pools=[{name: A}]"}, "spec.workers.pools[0].name"},
    {{"workers.machinePools=[{name: a, dollarsPerHour: -1}]"},
     "spec.workers.machinePools[0].dollarsPerHour"},
    {{"workers.traffic=[{between: [eu, us]}]"}, "spec.workers.traffic[0].dollarsPerGB"},
    {{"workers.traffic=[{between: [eu, us], dollarsPerGB: -1}]"},
     "spec.workers.traffic[0].dollarsPerGB"},
    {{"workers.traffic=[{between: [eu], dollarsPerGB: 1}]"}, "spec.workers.traffic[0].between"},
    {{"workers.traffic=[{between: [eu, ''], dollarsPerGB: 1}]"}, "spec.workers.traffic[0].between"},
    {{"workers.pools=[{name: a, cluster: B.example}]"}, "spec.workers.pools[0].cluster"},
    {{"workers.pools=[{name: a, cluster: home}]"}, "spec.workers.pools[0].cluster"},
    {{"workers.pools=[{name: a, maxReplicas: 1e6}]"}, "spec.workers.pools[0].maxReplicas"},
    {{"workers.pools=[{name: a, pendingSeconds: 0}]"}, "spec.workers.pools[0].pendingSeconds"},
    {{"workers.pools=[{name: a, returnAfterSeconds: 0}]"},
     "spec.workers.pools[0].returnAfterSeconds"},
    {{"workers.pools=[{name: a, nodeSelector: [b]}]"}, "spec.workers.pools[0].nodeSelector"},
    {{"workers.pools=[{name: a, machine: {}}]"}, "spec.workers.pools[0].machine.teraflops"},
    {{"workers.pools=[{name: a, machine: {teraflops: 1, memoryGiB: -1}}]"},
     "spec.workers.pools[0].machine.memoryGiB"},
    {{"workers.pools=[{name: a, machine: {teraflops: 1, speed: 2}}]"},
     "spec.workers.pools[0].machine.speed"},
    {{"workers.pools=[{name: a, machine: {teraflops: 1}}, {name: b}]"},
     "spec.workers.pools[1].machine"},
    {{"workers.pools=[{name: a, tolerations: {key: b}}]"}, "spec.workers.pools[0].tolerations"},
    {{"workers.pools=[{name: a, tolerations: [b]}]"}, "spec.workers.pools[0].tolerations"},
    {{"workers.pools=[{name: a, resources: 4}]"}, "spec.workers.pools[0].resources"},
    {{"workers.pools=[{name: a, resources: {limit: {}}}]"},
     "spec.workers.pools[0].resources.limit"},
    {{"workers.pools=[{name: a, resources: {limits: {cpu: [1]}}}]"},
     "spec.workers.pools[0].resources.limits"},
    {{"workers.pools=[{name: a, template: {containers: []}}]"},
     "spec.workers.pools[0].template.containers"},
    {{"workers.pools=[{name: a, matchExpressions: {key: b}}]"},
     "spec.workers.pools[0].matchExpressions"},
    {{"workers.pools=[{name: a, matchExpressions: [b]}]"},
     "spec.workers.pools[0].matchExpressions[0]"},
    {{"workers.pools=[{name: a, matchExpressions: [{operator: Exists}]}]"},
     "spec.workers.pools[0].matchExpressions[0].key"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b, operator: notIn, values: [c]}]}]"},
     "spec.workers.pools[0].matchExpressions[0].operator"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b}]}]"},
     "spec.workers.pools[0].matchExpressions[0].operator"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b, operator: NotIn}]}]"},
     "spec.workers.pools[0].matchExpressions[0].values"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b, operator: Exists, values: [c]}]}]"},
     "spec.workers.pools[0].matchExpressions[0].values"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b, operator: Gt, values: ['1', '2']}]}]"},
     "spec.workers.pools[0].matchExpressions[0].values"},
    {{"workers.pools=[{name: a, matchExpressions: [{key: b, operator: In, value: [c]}]}]"},
     "spec.workers.pools[0].matchExpressions[0].value"},
    {{"workers.template=pod"}, "spec.workers.template"},
    {{"workers.template={containers: []}"}, "spec.workers.template.containers"},
    {{"trainer.template={spec: []}"}, "spec.trainer.template.spec"},
    {{"trainer={image: x}"}, "spec.trainer.image"},
    {{"budget={}"}, "spec.budget.dollars"},
    {{"budget={dollars: 0}",
      "workers.pools=[{name: a, machine: {teraflops: 1, dollarsPerHour: 1}}]"},
     "spec.budget.dollars"},
    {{"budget={dollars: -1}",
      "workers.pools=[{name: a, machine: {teraflops: 1, dollarsPerHour: 1}}]"},
     "spec.budget.dollars"},
    {{"budget={dollars: 10}"}, "spec.workers.pools[0].machine.dollarsPerHour"},
    {{"budget={dollars: 10}",
      "workers.pools=[{name: a, machine: {teraflops: 1, dollarsPerHour: 1}},"
      " {name: b, machine: {teraflops: 1}}]"},
     "spec.workers.pools[1].machine.dollarsPerHour"},
    {{"preemption.drainSeconds=0"}, "spec.preemption.drainSeconds"},
    {{"failurePolicy.maxFailures=1001"}, "spec.failurePolicy.maxFailures"},
    {{"failurePolicy.windowSeconds=0"}, "spec.failurePolicy.windowSeconds"},
    {{"ttlSecondsAfterFinished=-1"}, "spec.ttlSecondsAfterFinished"},
};

TEST(ValidateTest, EveryMistakeIsReportedAtItsFieldWithARemedy) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(testing::PrintToString(wrong.overrides));
    const Checked<SwarmJob> job = ParseGoodWith(wrong.overrides);
    ASSERT_FALSE(job.ok());
    EXPECT_THAT(job.errors(), Contains(Field(&FieldError::path, wrong.path)))
        << ToString(job.errors());
    for (const FieldError& error : job.errors()) {
      EXPECT_NE(error.problem, "") << error.path;
      EXPECT_NE(error.remedy, "") << error.path;
    }
  }
}

TEST(ValidateTest, TheLimitsThemselvesAreAllowed) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"pipeline.stages=4"},
           {"schedule.warmupSteps=100"},
           {"training.sequenceLength=2048"},
           {"workers.minReplicas=5"},
           {"optimizer.betas=[0, 0]"},
           {"optimizer.epsilon=1e-30"},
           {"optimizer.epsilon=1"},
           {"pipeline.boundary.layers=[]", "pipeline.stages=4"},
           {"pipeline.boundary.codec=Int8", "pipeline.boundary.layers=[1, 3]", "pipeline.stages=3"},
           {"training.maxGradNorm=0"},
           {"training.accumulation=Exact"},
           {"training.reduceCodec=Int8"},
           {"training.stepMode=Local", "training.local.innerSteps=1"},
           {"training.accumulation=Exact", "optimizer.type=LAMB", "training.stepMode=Delayed"},
           {"pipeline.residency=Swap", "training.stepMode=Delayed", "training.accumulation=Exact"},
           {"metadata.name=" + std::string(52, 'a')},
           {"training.seed=9223372036854775807"},
           {"workers.pools=[{name: a, maxReplicas: 0}, {name: b, maxReplicas: 2}]"},
           {"workers.pools=[{name: a, resources: {requests: {cpu: 100m, x.io/tpu: 1}}}]"},
           {"workers.pools=[{name: a, machine: {teraflops: 0.5, region: eu, dollarsPerHour: 1}}]"},
           {"budget={dollars: 0.01}",
            "workers.pools=[{name: a, machine: {teraflops: 1, dollarsPerHour: 0.001}}]"},
           {"workers.traffic=[{between: [eu, '*'], dollarsPerGB: 0.02}]"},
           {"workers.pools=[{name: a, tolerations: [{operator: Exists}]}]"},
           {"workers.pools=[{name: a, matchExpressions: [{key: b, operator: DoesNotExist}, "
            "{key: c, operator: NotIn, values: [d]}, {key: e, operator: Lt, values: ['4']}]}]"},
           {"workers.pools=[{name: a, template: {spec: {runtimeClassName: nvidia}}}]"},
           {"workers.template={metadata: {labels: {a: b}}, spec: {containers: []}}"},
           {"failurePolicy.maxFailures=0", "ttlSecondsAfterFinished=0"},
           {"training.microbatchSize=8"},
           {"training.maxSteps=1e3"},
           {"data.uri=file:///a/b", "checkpoint.uri=s3://bucket/runs/"},
           {"data.uri=gs://bucket/a", "data.validationUri=abfs://a@b.dfs.core.windows.net/c"},
           {"data.validationUri=a.txt", "training.validationSequences=2"},
           {"training.validationSequences=1"},
           {"checkpoint.uri=a",
            "storage.regions=[{region: eu, checkpointUri: a},"
            " {region: us, dataUris: ['gs://b/c'], secretName: keys}]"},
           {"data.uri=a.bin", "model.config.vocab_size=65536"}}) {
    const Checked<SwarmJob> job = ParseGoodWith(overrides);
    EXPECT_TRUE(job.ok()) << testing::PrintToString(overrides) << ToString(job.errors());
  }
}

TEST(ValidateTest, AModelFromAFolderIsJudgedWithTheJobOnceItIsKnown) {
  Checked<SwarmJob> job = ParseGoodWith({"model={uri: models/llama}"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  (*job).spec.model.config = ParseGoodWith({})->spec.model.config;
  EXPECT_THAT(ValidateFit(*job), SizeIs(0));
  (*job).spec.model.config.num_hidden_layers = 1;
  EXPECT_THAT(ValidateFit(*job), Contains(Field(&FieldError::path, "spec.pipeline.stages")));
}

TEST(ValidateTest, ASegmentThatCannotFitTwiceIsRefusedWithTheBytesThatWouldDo) {
  Checked<SwarmJob> job = ParseGoodWith({"pipeline.residency=Swap"});
  ASSERT_TRUE(job.ok()) << ToString(job.errors());
  const std::uint64_t least = LeastSwapMemory(*job);
  (*job).spec.pipeline.memory.host = least;
  EXPECT_THAT(ValidateFit(*job), SizeIs(0));
  (*job).spec.pipeline.memory.host = least - 1;
  const auto errors = ValidateFit(*job);
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_EQ(errors[0].path, "spec.pipeline.memory.host");
  EXPECT_NE(ToString(errors).find(std::to_string(least)), std::string::npos) << ToString(errors);
  (*job).spec.pipeline.memory = {.device = least - 1};
  const auto on_device = ValidateFit(*job);
  ASSERT_THAT(on_device, SizeIs(1));
  EXPECT_EQ(on_device[0].path, "spec.pipeline.memory.device");
}

TEST(ValidateTest, InAClusterNothingLiesInAFolderOfOnePod) {
  const auto wrong_at = [](const std::vector<std::string>& overrides) {
    const Checked<SwarmJob> job = ParseGoodWith(overrides);
    EXPECT_TRUE(job.ok()) << ToString(job.errors());
    std::vector<std::string> paths;
    for (const FieldError& error : ValidateForCluster(*job)) paths.push_back(error.path);
    return paths;
  };
  EXPECT_THAT(wrong_at({}), ElementsAre("spec.checkpoint.uri", "spec.data.uri"));
  EXPECT_THAT(wrong_at({"data.uri=s3://a/b", "checkpoint.uri=file:///shared"}), SizeIs(0));
  EXPECT_THAT(wrong_at({"data.uri=/shared/text", "checkpoint.uri=out"}),
              ElementsAre("spec.checkpoint.uri"));
  EXPECT_THAT(wrong_at({"data.uri=s3://a/b", "data.validationUri=b", "checkpoint.uri=s3://a/c",
                        "model={uri: llama, tokenizer: {kind: SentencePiece, uri: t.model}}"}),
              ElementsAre("spec.model.uri", "spec.model.tokenizer.uri", "spec.data.validationUri"));
  EXPECT_THAT(
      wrong_at({"data.uri=s3://a/b", "checkpoint.uri=s3://a/c",
                "storage.regions=[{region: eu, checkpointUri: d, dataUris: ['s3://e/b']}]"}),
      ElementsAre("spec.storage.regions[0].checkpointUri"));
}

}  // namespace
}  // namespace swarm::api
