#include "api/parse.h"

#include <algorithm>

#include "api/format/archive.h"
#include "api/format/judge.h"
#include "api/format/schema.h"
#include "api/format/schema_archive.h"
#include "api/format/yaml.h"
#include "api/manifest.h"
#include "api/model/decoder_config.h"
#include "api/overrides.h"
#include "api/validate.h"

namespace swarm::api {

using nlohmann::json;

Tokenizer TokenizerAt(const std::string& uri) {
  if (uri.empty()) return {};
  return {uri.ends_with(".model") ? TokenizerKind::kSentencePiece : TokenizerKind::kHuggingFace,
          uri};
}

// The descriptions are static, not in an unnamed namespace: the archives find them by the namespace
// of their arguments.

static void DescribeConfig(ObjectReader& a, DecoderConfig& config) {
  if (const json* value = a.Find("config")) {
    config = ParseDecoderConfig(*value, a.PathOf("config"), a.errors());
  }
}
static void DescribeConfig(ObjectWriter& a, const DecoderConfig& config) {
  if (config != DecoderConfig()) a.Field("config", DecoderConfigToJson(config));
}

static void DescribeConfig(ObjectSchema& a, const DecoderConfig&) {
  a.Add("config", DecoderConfigSchema());
}

template <typename Archive>
static void Describe(Archive& a, Tokenizer& tokenizer) {
  a.Field("uri", tokenizer.uri);
  if constexpr (Archive::kReading) {
    tokenizer = TokenizerAt(tokenizer.uri);
  }
  a.Dependent("kind", tokenizer.kind);
}

template <typename Archive>
static void Describe(Archive& a, Lora& lora) {
  a.Field("rank", lora.rank);
  a.Field("alpha", lora.alpha);
  a.Field("targets", lora.targets);
}

template <typename Archive>
static void Describe(Archive& a, Model& model) {
  a.Field("uri", model.uri);
  if constexpr (Archive::kReading) {
    if (!model.uri.empty()) model.init = ModelInit::kPretrained;
  }
  a.Dependent("init", model.init);
  DescribeConfig(a, model.config);
  a.Object("tokenizer", model.tokenizer);
  a.Object("lora", model.lora);
}

template <typename Archive>
static void Describe(Archive& a, DataSource& source) {
  a.Required("uri", source.uri);
  a.Field("weight", source.weight);
}

template <typename Archive>
static void Describe(Archive& a, Data& data) {
  a.Field("uri", data.uri);
  a.Field("sources", data.sources);
  a.Field("validationUri", data.validationUri);
  a.Field("tokenType", data.tokenType);
  a.Field("format", data.format);
  a.Field("textField", data.textField);
  a.Field("documents", data.documents);
  a.Field("onBadDocument", data.onBadDocument);
  a.Field("cacheBytes", data.cacheBytes);
}

template <typename Archive>
static void Describe(Archive& a, RegionStorage& storage) {
  a.Required("region", storage.region);
  a.Field("checkpointUri", storage.checkpointUri);
  a.Field("dataUris", storage.dataUris);
  a.Field("validationUri", storage.validationUri);
  a.Field("endpoint", storage.endpoint);
  a.Field("bucketRegion", storage.bucketRegion);
  a.Field("secretName", storage.secretName);
}

template <typename Archive>
static void Describe(Archive& a, Storage& storage) {
  a.Field("endpoint", storage.endpoint);
  a.Field("region", storage.region);
  a.Field("secretName", storage.secretName);
  a.Field("regions", storage.regions);
}

template <typename Archive>
static void Describe(Archive& a, LocalSteps& local) {
  a.Field("innerSteps", local.innerSteps);
  a.Field("microbatches", local.microbatches);
  a.Field("outerLearningRate", local.outerLearningRate);
  a.Field("outerMomentum", local.outerMomentum);
  a.Dependent("overlap", local.overlap);
  a.Field("fragments", local.fragments);
}

template <typename Archive>
static void Describe(Archive& a, Audit& audit) {
  a.Field("fraction", audit.fraction);
}

template <typename Archive>
static void Describe(Archive& a, Training& training) {
  a.Field("seed", training.seed);
  a.Required("maxSteps", training.maxSteps);
  a.Required("globalBatchSize", training.globalBatchSize);
  a.Dependent("microbatchSize", training.microbatchSize);
  a.Required("sequenceLength", training.sequenceLength);
  a.Field("maxGradNorm", training.maxGradNorm);
  a.Field("zLoss", training.zLoss);
  a.Field("precision", training.precision);
  a.Dependent("stepMode", training.stepMode);
  a.Object("local", training.local);
  a.Field("accumulation", training.accumulation);
  a.Field("reduceCodec", training.reduceCodec);
  a.Object("audit", training.audit);
  a.Field("validationIntervalSteps", training.validationIntervalSteps);
  a.Field("validationSequences", training.validationSequences);
}

template <typename Archive>
static void Describe(Archive& a, Optimizer& optimizer) {
  a.Field("type", optimizer.type);
  a.Field("learningRate", optimizer.learningRate);
  a.Field("weightDecay", optimizer.weightDecay);
  a.Field("decayEmbeddings", optimizer.decayEmbeddings);
  a.Pair("betas", optimizer.beta1, optimizer.beta2);
  a.Field("epsilon", optimizer.epsilon);
  a.Field("momentum", optimizer.momentum);
}

template <typename Archive>
static void Describe(Archive& a, Schedule& schedule) {
  a.Field("type", schedule.type);
  a.Field("warmupSteps", schedule.warmupSteps);
  a.Field("decaySteps", schedule.decaySteps);
  a.Field("decayShape", schedule.decayShape);
  a.Field("finalFraction", schedule.finalFraction);
}

template <typename Archive>
static void Describe(Archive& a, Boundary& boundary) {
  a.Dependent("codec", boundary.codec);
  a.Field("coefficients", boundary.coefficients);
  a.Field("gradientCodec", boundary.gradientCodec);
  a.Field("blockSize", boundary.blockSize);
  a.Field("rank", boundary.rank);
  a.Field("factor", boundary.factor);
  a.Field("tableRank", boundary.tableRank);
  a.Field("anchorTokens", boundary.anchorTokens);
  a.Field("learningRateScale", boundary.learningRateScale);
  a.Field("constrainLast", boundary.constrainLast);
  a.Field("sharedLayers", boundary.sharedLayers);
  a.Field("layers", boundary.layers);
  a.Field("refreshSteps", boundary.refreshSteps);
  a.Field("refreshRate", boundary.refreshRate);
}

template <typename Archive>
static void Describe(Archive& a, PipelineMemory& memory) {
  a.Quantity("host", memory.host);
  a.Quantity("device", memory.device);
  a.Field("scratch", memory.scratch);
}

// A job that is read has a number. In a cluster's object there may be `Auto` in its place, which
// TakeAutoStages takes out.
static void DescribeStages(ObjectReader& a, std::uint64_t& stages) { a.Field("stages", stages); }
static void DescribeStages(ObjectWriter& a, const std::uint64_t& stages) {
  a.Field("stages", stages);
}
static void DescribeStages(ObjectSchema& a, const std::uint64_t& stages) {
  a.Add("stages", {{"x-kubernetes-int-or-string", true}, {"default", stages}, {"minimum", 0}});
}

template <typename Archive>
static void Describe(Archive& a, Pipeline& pipeline) {
  DescribeStages(a, pipeline.stages);
  a.Field("minReplicasPerStage", pipeline.minReplicasPerStage);
  a.Field("surviveRegionLoss", pipeline.surviveRegionLoss);
  a.Field("residency", pipeline.residency);
  a.Object("memory", pipeline.memory);
  a.Field("inFlightMax", pipeline.inFlightMax);
  a.Field("recompute", pipeline.recompute);
  a.Field("shardUpdate", pipeline.shardUpdate);
  a.Object("boundary", pipeline.boundary);
}

template <typename Archive>
static void Describe(Archive& a, Checkpoint& checkpoint) {
  a.Field("uri", checkpoint.uri);
  a.Field("intervalSteps", checkpoint.intervalSteps);
  a.Field("keepLast", checkpoint.keepLast);
}

template <typename Archive>
static void Describe(Archive& a, Logging& logging) {
  a.Field("tensorboard", logging.tensorboard);
}

template <typename Archive>
static void Describe(Archive& a, Machine& machine) {
  a.Field("region", machine.region);
  a.Field("teraflops", machine.teraflops);
  a.Field("memoryGiB", machine.memoryGiB);
  a.Field("deviceMemoryGiB", machine.deviceMemoryGiB);
  a.Field("diskMBps", machine.diskMBps);
  a.Field("diskSecondsPerGiB", machine.diskSecondsPerGiB);
  a.Field("toDeviceMBps", machine.toDeviceMBps);
  a.Field("fromDeviceMBps", machine.fromDeviceMBps);
  a.Field("memoryMBps", machine.memoryMBps);
  a.Field("updateMillions", machine.updateMillions);
  a.Field("uploadMbps", machine.uploadMbps);
  a.Field("downloadMbps", machine.downloadMbps);
  a.Field("dollarsPerHour", machine.dollarsPerHour);
  a.Field("lossesPerHour", machine.lossesPerHour);
  a.Field("returnSeconds", machine.returnSeconds);
}

template <typename Archive>
static void Describe(Archive& a, Pool& pool) {
  a.Required("name", pool.name);
  a.Field("cluster", pool.cluster);
  a.Field("maxReplicas", pool.maxReplicas);
  a.Field("pendingSeconds", pool.pendingSeconds);
  a.Field("returnAfterSeconds", pool.returnAfterSeconds);
  a.Field("nodeSelector", pool.nodeSelector);
  a.Field("matchExpressions", pool.matchExpressions);
  a.Field("tolerations", pool.tolerations);
  a.Field("resources", pool.resources);
  a.Field("template", pool.podTemplate);
  a.Field("machine", pool.machine);
}

template <typename Archive>
static void Describe(Archive& a, MachinePool& pool) {
  a.Required("name", pool.name);
  a.Field("maxReplicas", pool.maxReplicas);
  a.Field("dollarsPerHour", pool.dollarsPerHour);
}

template <typename Archive>
static void Describe(Archive& a, TrafficPrice& price) {
  a.Required("between", price.between);
  a.Required("dollarsPerGB", price.dollarsPerGB);
}

template <typename Archive>
static void Describe(Archive& a, Workers& workers) {
  a.Field("replicas", workers.replicas);
  a.Field("minReplicas", workers.minReplicas);
  a.Field("memoryBudgetBytes", workers.memoryBudgetBytes);
  a.Field("template", workers.podTemplate);
  a.Field("pools", workers.pools);
  a.Field("machinePools", workers.machinePools);
  a.Field("traffic", workers.traffic);
}

template <typename Archive>
static void Describe(Archive& a, Trainer& trainer) {
  a.Field("allowSpot", trainer.allowSpot);
  a.Field("template", trainer.podTemplate);
}

template <typename Archive>
static void Describe(Archive& a, Preemption& preemption) {
  a.Field("drainSeconds", preemption.drainSeconds);
}

template <typename Archive>
static void Describe(Archive& a, FailurePolicy& policy) {
  a.Field("maxFailures", policy.maxFailures);
  a.Field("windowSeconds", policy.windowSeconds);
}

template <typename Archive>
static void Describe(Archive& a, Budget& budget) {
  a.Required("dollars", budget.dollars);
}

template <typename Archive>
static void Describe(Archive& a, Spec& spec) {
  a.Field("suspend", spec.suspend);
  a.Field("managedBy", spec.managedBy);
  a.Field("budget", spec.budget);
  a.RequiredObject("model", spec.model);
  a.RequiredObject("data", spec.data);
  a.Object("storage", spec.storage);
  a.RequiredObject("training", spec.training);
  a.Object("optimizer", spec.optimizer);
  a.Object("schedule", spec.schedule);
  a.Object("pipeline", spec.pipeline);
  a.Object("checkpoint", spec.checkpoint);
  a.Object("logging", spec.logging);
  a.Object("workers", spec.workers);
  a.Object("trainer", spec.trainer);
  a.Object("preemption", spec.preemption);
  a.Object("failurePolicy", spec.failurePolicy);
  a.Field("ttlSecondsAfterFinished", spec.ttlSecondsAfterFinished);
}

struct Metadata {
  std::string& name;
  RawJson& rest;
};

template <typename Archive>
static void Describe(Archive& a, Metadata& metadata) {
  a.Required("name", metadata.name);
  // The keys of Kubernetes' ObjectMeta, so that the output of kubectl is a valid manifest, too.
  a.Extra({"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp",
           "finalizers", "generateName", "generation", "labels", "managedFields", "namespace",
           "ownerReferences", "resourceVersion", "selfLink", "uid"},
          metadata.rest);
}

template <typename Archive>
static void Describe(Archive& a, SwarmJob& job) {
  a.Constant("apiVersion", "swarmjob.dev/v1alpha1");
  a.Constant("kind", "SwarmJob");
  Metadata metadata{job.name, job.metadata};
  a.Object("metadata", metadata);
  a.Object("spec", job.spec);
  a.Ignore({"status"});
}

namespace {

void FillDefaults(SwarmJob& job) {
  const std::uint64_t lowest = job.spec.pipeline.stages * job.spec.pipeline.minReplicasPerStage;
  Workers& workers = job.spec.workers;
  if (workers.replicas == 0) workers.replicas = std::max(lowest, workers.minReplicas);
  if (workers.minReplicas == 0) workers.minReplicas = std::min(lowest, workers.replicas);
}

SwarmJob Read(const json& value, std::vector<FieldError>* errors) {
  SwarmJob job;
  ObjectReader reader(value, "", errors);
  if (reader.is_object()) Describe(reader, job);
  reader.Finish();
  FillDefaults(job);
  return job;
}

bool Within(std::string_view path, std::string_view ancestor) {
  return path.starts_with(ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.' ||
          path[ancestor.size()] == '[');
}

// A field that could not be read has its default. So an error of Validate about it, or about a
// group of fields with it, is not the user's mistake.
void AppendUnrelated(std::vector<FieldError> found, std::vector<FieldError>* errors) {
  const std::size_t read = errors->size();
  for (FieldError& error : found) {
    const bool related =
        std::any_of(errors->begin(), errors->begin() + static_cast<std::ptrdiff_t>(read),
                    [&](const FieldError& earlier) {
                      return Within(earlier.path, error.path) || Within(error.path, earlier.path);
                    });
    if (!related) errors->push_back(std::move(error));
  }
}

}  // namespace

Checked<json> ReadYaml(std::string_view text, std::span<const std::string> overrides) {
  Checked<json> value = YamlToJson(text);
  if (!value.ok()) return value;
  std::vector<FieldError> errors;
  for (const std::string& assignment : overrides) ApplyOverride(assignment, &*value, &errors);
  if (!errors.empty()) return errors;
  return value;
}

bool TakeAutoStages(json* manifest) {
  const json::json_pointer stages("/spec/pipeline/stages");
  if (!manifest->contains(stages) || manifest->at(stages) != "Auto") return false;
  manifest->at(stages.parent_pointer()).erase("stages");
  return true;
}

Checked<SwarmJob> ParseManifest(const json& value) {
  std::vector<FieldError> errors;
  SwarmJob job = Read(value, &errors);
  AppendUnrelated(Validate(job), &errors);
  if (!errors.empty()) return errors;
  return job;
}

Checked<SwarmJob> ParseYaml(std::string_view text, std::span<const std::string> overrides) {
  const Checked<json> value = ReadYaml(text, overrides);
  if (!value.ok()) return value.errors();
  return ParseManifest(*value);
}

Checked<SwarmJob> FromJson(const json& value) {
  std::vector<FieldError> errors;
  SwarmJob job = Read(value, &errors);
  if (!errors.empty()) return errors;
  return job;
}

Checked<SwarmJob> FromJsonText(std::string_view text) {
  // The text comes from another program, so its depth is limited.
  constexpr int kDepthMax = 64;
  bool too_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const json value = json::parse(text, keep, /*allow_exceptions=*/false);
  if (too_deep || value.is_discarded()) {
    return FieldError{"", "the text is not the JSON of a job", "use the output of ToJsonText"};
  }
  return FromJson(value);
}

void ReadMachine(ObjectReader& reader, Machine* machine) { Describe(reader, *machine); }

json SpecSchema() {
  ObjectSchema schema(SchemaDefaults::kStated);
  Spec defaults;
  Describe(schema, defaults);
  return schema.Take();
}

json ToJson(const SwarmJob& job, Defaults defaults) { return ObjectWriter(defaults).Value(job); }

Checked<Boundary> BoundaryFromJson(const json& value, const std::string& path) {
  std::vector<FieldError> errors;
  Boundary boundary;
  ObjectReader reader(value, path, &errors);
  if (reader.is_object()) Describe(reader, boundary);
  reader.Finish();
  if (!errors.empty()) return errors;
  Judge judge;
  JudgeBoundaryFields(judge, boundary, path);
  errors = judge.Take();
  if (!errors.empty()) return errors;
  return boundary;
}

Checked<Lora> LoraFromJson(const json& value, const std::string& path) {
  std::vector<FieldError> errors;
  Lora lora;
  ObjectReader reader(value, path, &errors);
  if (reader.is_object()) Describe(reader, lora);
  reader.Finish();
  if (!errors.empty()) return errors;
  Judge judge;
  JudgeLoraFields(judge, lora, path);
  errors = judge.Take();
  if (!errors.empty()) return errors;
  return lora;
}

json LoraToJson(const Lora& lora) { return ObjectWriter().Value(lora); }

json BoundaryToJson(const Boundary& boundary) { return ObjectWriter().Value(boundary); }

std::string ToJsonText(const SwarmJob& job, Defaults defaults) {
  return ToJson(job, defaults).dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace swarm::api
