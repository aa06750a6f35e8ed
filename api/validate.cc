#include "api/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/format/enum_names.h"
#include "api/format/judge.h"
#include "api/model/boundary.h"
#include "api/model/memory.h"

namespace swarm::api {
namespace {

// Larger numbers are mistakes, and sums of them could overflow.
constexpr std::uint64_t kSeedMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kStepsMax = 1'000'000'000;
constexpr std::uint64_t kBatchMax = 1 << 20;
constexpr std::uint64_t kSequenceMax = 1 << 22;
constexpr std::uint64_t kStagesMax = 1024;
constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 50;
constexpr std::uint64_t kCacheMin = 1 << 20;
constexpr std::size_t kSourcesMax = 64;
constexpr std::uint64_t kBlockMax = 1 << 20;
constexpr std::uint64_t kAnchorTokensMax = 64;
// Optimizers compute in float32. A much smaller number would be zero there, and a zero moment would
// give 0 / 0.
constexpr double kEpsilonMin = 1e-30;
constexpr std::int64_t kWidthMax = 1 << 20;
constexpr std::int64_t kLayersMax = 4096;
constexpr std::int64_t kVocabularyMax = 1 << 24;
constexpr std::int64_t kByteVocabulary = 256;
constexpr std::int64_t kUInt16Vocabulary = 65536;

void JudgeData(Judge& judge, const Data& data) {
  judge.Expect(!data.uri.empty() || data.sources, "spec.data.uri", "is missing",
               "give a file or a folder, or data.sources");
  judge.Expect(data.uri.empty() || !data.sources, "spec.data.sources", "stands beside data.uri",
               "leave out one of them");
  JudgeUri(judge, "spec.data.uri", data.uri, UriOf::kData);
  if (data.sources) {
    judge.Expect(!data.sources->empty() && data.sources->size() <= kSourcesMax, "spec.data.sources",
                 "has " + Text(data.sources->size()) + " items", "1 to " + Text(kSourcesMax));
    for (std::size_t i = 0; i < data.sources->size(); ++i) {
      const DataSource& source = (*data.sources)[i];
      const std::string path = "spec.data.sources[" + std::to_string(i) + "]";
      judge.Expect(!source.uri.empty(), path + ".uri", "is missing", "give a file or a folder");
      JudgeUri(judge, path + ".uri", source.uri, UriOf::kData);
      judge.Expect(source.weight > 0 && source.weight <= 1e6, path + ".weight",
                   "is " + Text(source.weight), "above 0, at most 1e6");
    }
  }
  JudgeUri(judge, "spec.data.validationUri", data.validationUri, UriOf::kData);
  judge.Expect(!data.textField.empty(), "spec.data.textField", "is empty",
               "give the name of a field, as text");
  judge.Range("spec.data.cacheBytes", data.cacheBytes, kCacheMin, kMemoryMax);
}

// Anchors are made of tokens before a token, whatever document they are of.
void JudgeDocuments(Judge& judge, const Spec& spec) {
  judge.Expect(
      spec.data.documents == DocumentView::kJoined || spec.pipeline.boundary.anchorTokens <= 1,
      "spec.data.documents", "is Separate, and boundary.anchorTokens looks into others",
      "Joined, or boundary.anchorTokens: 1");
}

void JudgeModel(Judge& judge, const Model& model) {
  const bool has_config = model.config.hidden_size != 0;
  if (model.uri.empty()) {
    judge.Expect(has_config, "spec.model.config", "neither uri nor config is given",
                 "give one of them");
    judge.Expect(model.init != ModelInit::kPretrained, "spec.model.init",
                 "is Pretrained, which needs weights, and there is no uri",
                 "give spec.model.uri, or use Random");
  } else {
    judge.Expect(!has_config, "spec.model.config",
                 "is given together with uri, whose folder has a config", "give one of them");
  }
  JudgeUri(judge, "spec.model.uri", model.uri);
  JudgeUri(judge, "spec.model.tokenizer.uri", model.tokenizer.uri);
  switch (model.tokenizer.kind) {
    case TokenizerKind::kSentencePiece:
      judge.Expect(!model.tokenizer.uri.empty(), "spec.model.tokenizer.uri", "is missing",
                   "SentencePiece needs the uri of a .model file");
      break;
    case TokenizerKind::kHuggingFace:
      judge.Expect(!model.tokenizer.uri.empty(), "spec.model.tokenizer.uri", "is missing",
                   "HuggingFace needs the uri of a tokenizer.json, or of a folder with one");
      break;
    case TokenizerKind::kAuto:
    case TokenizerKind::kByte:
      judge.Expect(model.tokenizer.uri.empty(), "spec.model.tokenizer.uri",
                   "the kind " + std::string(NameOf(model.tokenizer.kind)) + " reads no file",
                   "leave out the uri, or the kind");
  }
}

void JudgeLora(Judge& judge, const Spec& spec) {
  JudgeLoraFields(judge, spec.model.lora, "spec.model.lora");
  if (spec.model.lora.rank == 0) return;
  judge.Expect(spec.model.init == ModelInit::kPretrained, "spec.model.lora.rank",
               "is above 0, and the weights, which stay as they are, would be random",
               "give spec.model.uri with trained weights, or leave out lora");
  judge.Expect(spec.optimizer.type != OptimizerType::kMuon, "spec.optimizer.type",
               "is Muon, which is for whole matrices", "AdamW or LAMB with model.lora");
}

void JudgeTraining(Judge& judge, const Training& training) {
  const std::string path = "spec.training.";
  // The API server stores whole numbers as signed 64-bit integers.
  judge.Range(path + "seed", training.seed, std::uint64_t{0}, kSeedMax);
  judge.Range(path + "maxSteps", training.maxSteps, std::uint64_t{1}, kStepsMax);
  const bool global =
      judge.Range(path + "globalBatchSize", training.globalBatchSize, std::uint64_t{1}, kBatchMax);
  const bool micro =
      judge.Range(path + "microbatchSize", training.microbatchSize, std::uint64_t{1}, kBatchMax);
  if (global && micro) {
    judge.Expect(training.globalBatchSize % training.microbatchSize == 0, path + "globalBatchSize",
                 "is " + Text(training.globalBatchSize),
                 "a multiple of microbatchSize (" + Text(training.microbatchSize) + ")");
  }
  judge.Range(path + "sequenceLength", training.sequenceLength, std::uint64_t{1}, kSequenceMax);
  judge.Range(path + "maxGradNorm", training.maxGradNorm, 0.0, 1e9);
  judge.Range(path + "zLoss", training.zLoss, 0.0, 1.0);
  judge.Expect(
      training.accumulation == Accumulation::kFloat || training.reduceCodec == ReduceCodec::kNone,
      path + "reduceCodec", "is not None, with accumulation Exact",
      "None: integers are sent as they are; or accumulation Float");
  judge.Range(path + "validationIntervalSteps", training.validationIntervalSteps, std::uint64_t{1},
              kStepsMax);
  judge.Range(path + "validationSequences", training.validationSequences, std::uint64_t{1},
              kBatchMax);
}

void JudgeAudit(Judge& judge, const Spec& spec) {
  const std::string path = "spec.training.audit.fraction";
  const double fraction = spec.training.audit.fraction;
  judge.Range(path, fraction, 0.0, 1.0);
  if (fraction == 0) return;
  judge.Expect(
      spec.training.accumulation == Accumulation::kExact, path,
      "is above 0, and with accumulation Float workers whose results differ may all be right",
      "0, or accumulation Exact, whose workers are of one numeric class");
  judge.Expect(spec.pipeline.residency != Residency::kSwap, path,
               "is above 0, and residency Swap does not compare gradients yet",
               "0, or another residency");
}

/// What StepMode::kLocal needs, and what it does not do yet.
void JudgeLocal(Judge& judge, const Spec& spec) {
  const Training& training = spec.training;
  const LocalSteps& local = training.local;
  const std::string path = "spec.training.local";
  if (training.stepMode != StepMode::kLocal) {
    judge.Expect(local == LocalSteps(), path, "has no meaning without stepMode Local",
                 "leave it out");
    return;
  }
  const bool steps =
      judge.Range(path + ".innerSteps", local.innerSteps, std::uint64_t{1}, kBatchMax);
  const bool batch =
      judge.Range(path + ".microbatches", local.microbatches, std::uint64_t{1}, kBatchMax);
  if (steps && batch && training.microbatchSize > 0) {
    const std::uint64_t microbatches = training.globalBatchSize / training.microbatchSize;
    const std::uint64_t of_replica = local.innerSteps * local.microbatches;
    judge.Expect(microbatches % of_replica == 0, path + ".innerSteps",
                 "is " + Text(local.innerSteps) + ", with " + Text(local.microbatches) +
                     " microbatches each",
                 "so many that a replica's microbatches of a round, " + Text(of_replica) +
                     ", divide those of all (globalBatchSize / microbatchSize, " +
                     Text(microbatches) + ")");
  }
  constexpr std::uint64_t kFragmentsMax = 64;
  judge.Range(path + ".fragments", local.fragments, std::uint64_t{1}, kFragmentsMax);
  judge.Positive(path + ".outerLearningRate", local.outerLearningRate.value_or(1), 100);
  const double momentum = local.outerMomentum.value_or(0);
  judge.Expect(momentum >= 0 && momentum < 1, path + ".outerMomentum", "is " + Text(momentum),
               "at least 0, less than 1");
  const std::string why = ": stepMode Local does nothing else yet";
  judge.Expect(training.accumulation == Accumulation::kFloat, "spec.training.accumulation",
               "is Exact", "Float: steps of replicas depend on who takes them");
  judge.Expect(spec.pipeline.shardUpdate == ShardUpdate::kNone, "spec.pipeline.shardUpdate",
               "is " + std::string(NameOf(spec.pipeline.shardUpdate)), "None" + why);
  judge.Expect(!IsPartOfModel(spec.pipeline.boundary), "spec.pipeline.boundary.codec",
               "is a part of the model", "None, BF16, Int8 or Int8Dynamic" + why);
  judge.Expect(spec.model.lora.rank == 0, "spec.model.lora", "asks for adapters",
               "leave it out" + why);
}

void JudgeOptimizer(Judge& judge, const Optimizer& optimizer) {
  const std::string path = "spec.optimizer.";
  judge.Positive(path + "learningRate", optimizer.learningRate, 100);
  judge.Range(path + "weightDecay", optimizer.weightDecay, 0.0, 100.0);
  judge.Expect(optimizer.beta1 >= 0 && optimizer.beta1 < 1, path + "betas[0]",
               "is " + Text(optimizer.beta1), "at least 0, less than 1");
  judge.Expect(optimizer.beta2 >= 0 && optimizer.beta2 < 1, path + "betas[1]",
               "is " + Text(optimizer.beta2), "at least 0, less than 1");
  judge.Range(path + "epsilon", optimizer.epsilon, kEpsilonMin, 1.0);
  judge.Expect(optimizer.momentum >= 0 && optimizer.momentum < 1, path + "momentum",
               "is " + Text(optimizer.momentum), "at least 0, less than 1");
}

void JudgeSchedule(Judge& judge, const Spec& spec) {
  judge.Expect(spec.schedule.warmupSteps <= spec.training.maxSteps, "spec.schedule.warmupSteps",
               "is " + Text(spec.schedule.warmupSteps),
               "at most maxSteps (" + Text(spec.training.maxSteps) + ")");
  const bool decays = spec.schedule.type == ScheduleType::kWSD;
  judge.Expect(decays || spec.schedule.decaySteps == 0, "spec.schedule.decaySteps",
               "has no meaning for the type " + std::string(NameOf(spec.schedule.type)),
               "leave it out: it is for WSD");
  if (decays && spec.schedule.warmupSteps <= spec.training.maxSteps) {
    judge.Range("spec.schedule.decaySteps", spec.schedule.decaySteps, std::uint64_t{1},
                spec.training.maxSteps - spec.schedule.warmupSteps);
  }
  judge.Range("spec.schedule.finalFraction", spec.schedule.finalFraction, 0.0, 1.0);
}

void JudgePipeline(Judge& judge, const Pipeline& pipeline, const Workers& workers) {
  const bool stages =
      judge.Range("spec.pipeline.stages", pipeline.stages, std::uint64_t{1}, kStagesMax);
  const bool each = judge.Range("spec.pipeline.minReplicasPerStage", pipeline.minReplicasPerStage,
                                std::uint64_t{1}, kReplicasMax);
  const bool replicas =
      judge.Range("spec.workers.replicas", workers.replicas, std::uint64_t{1}, kReplicasMax);
  if (stages && each && replicas) {
    const std::uint64_t needed = pipeline.stages * pipeline.minReplicasPerStage;
    judge.Expect(workers.replicas >= needed, "spec.workers.replicas",
                 "is " + Text(workers.replicas),
                 "at least stages × minReplicasPerStage (" + Text(needed) + ")");
  }
  judge.Range("spec.pipeline.inFlightMax", pipeline.inFlightMax, std::uint64_t{0}, kBatchMax);
  judge.Range("spec.workers.minReplicas", workers.minReplicas, std::uint64_t{0}, kReplicasMax);
  judge.Range("spec.workers.memoryBudgetBytes", workers.memoryBudgetBytes, std::uint64_t{0},
              kMemoryMax);
  judge.Expect(workers.minReplicas <= workers.replicas, "spec.workers.minReplicas",
               "is " + Text(workers.minReplicas),
               "at most replicas (" + Text(workers.replicas) + ")");
  judge.Expect(!stages || workers.minReplicas >= pipeline.stages, "spec.workers.minReplicas",
               "is " + Text(workers.minReplicas),
               "at least one per stage (" + Text(pipeline.stages) + ")");
}

/// What Residency::kSwap does not do yet.
void JudgeSwap(Judge& judge, const Spec& spec) {
  const Pipeline& pipeline = spec.pipeline;
  const std::string memory = "spec.pipeline.memory.";
  if (pipeline.residency != Residency::kSwap) {
    const std::string what = "has no meaning without residency Swap";
    judge.Expect(pipeline.memory.host == 0, memory + "host", what, "leave it out");
    judge.Expect(pipeline.memory.device == 0, memory + "device", what, "leave it out");
    judge.Expect(pipeline.memory.scratch.empty(), memory + "scratch", what, "leave it out");
    return;
  }
  judge.Range(memory + "host", pipeline.memory.host, std::uint64_t{0}, kMemoryMax);
  judge.Range(memory + "device", pipeline.memory.device, std::uint64_t{0}, kMemoryMax);
  judge.Expect(pipeline.memory.scratch.empty() || pipeline.memory.scratch.starts_with('/'),
               memory + "scratch", "is not an absolute path", "a folder on a local disk");
  const std::string why = ": residency Swap does nothing else yet";
  judge.Expect(pipeline.shardUpdate == ShardUpdate::kNone, "spec.pipeline.shardUpdate",
               "is " + std::string(NameOf(pipeline.shardUpdate)), "None" + why);
  judge.Expect(!IsPartOfModel(pipeline.boundary), "spec.pipeline.boundary.codec",
               "is a part of the model", "None, BF16, Int8 or Int8Dynamic" + why);
}

void JudgeBoundary(Judge& judge, const Spec& spec) {
  const std::string path = "spec.pipeline.boundary";
  const Boundary& boundary = spec.pipeline.boundary;
  JudgeBoundaryFields(judge, boundary, path);
  judge.Expect(!IsPartOfModel(boundary) || spec.model.init == ModelInit::kRandom, path + ".codec",
               "is a part of the model, which pretrained weights do not have",
               "set model.init: Random, or a codec among None, BF16, Int8, Int8Dynamic without"
               " sharedLayers");
}

void JudgeBoundaryFit(Judge& judge, const DecoderConfig& config, const Pipeline& pipeline) {
  const std::string path = "spec.pipeline.boundary.";
  const Boundary& boundary = pipeline.boundary;
  const auto width = static_cast<std::uint64_t>(std::max<std::int64_t>(config.hidden_size, 0));
  for (const auto& [name, rank] :
       {std::pair{"rank", boundary.rank}, std::pair{"tableRank", boundary.tableRank}}) {
    judge.Expect(rank <= width, path + name, "is " + Text(rank),
                 "at most hidden_size (" + Text(width) + ")");
  }
  const bool divided =
      boundary.codec == BoundaryCodec::kBottleneck || boundary.codec == BoundaryCodec::kMaxout;
  judge.Expect(!divided || (boundary.factor > 0 && width % boundary.factor == 0), path + "factor",
               "is " + Text(boundary.factor), "a divisor of hidden_size (" + Text(width) + ")");
  judge.Expect(boundary.codec != BoundaryCodec::kSubspace || !config.post_norms, path + "codec",
               "is Subspace, and the norms behind the layers of " +
                   std::string(NameOf(config.family)) + " leave the subspace",
               "another codec");
  if (!boundary.layers) return;
  const auto count =
      static_cast<std::uint64_t>(std::max<std::int64_t>(config.num_hidden_layers, 0));
  judge.Expect(boundary.layers->empty() || boundary.layers->back() < count, path + "layers",
               "names a layer that the model does not have",
               "layers from 1 to num_hidden_layers - 1 (" +
                   Text(std::max<std::uint64_t>(count, 1) - 1) + ")");
  const std::uint64_t stages = boundary.layers->size() + 1;
  const bool rounds = ForwardNumbers(boundary) != NumberCodec::kNone ||
                      BackwardNumbers(boundary) != NumberCodec::kNone;
  const std::string why =
      IsPartOfModel(boundary)
          ? "a model whose boundaries are a part of it is cut at boundary.layers only"
          : "numbers are rounded at boundary.layers only, and another cut would round them once "
            "more;"
            " add layers, or use fewer stages";
  judge.Expect(!(IsPartOfModel(boundary) || rounds) || pipeline.stages <= stages,
               "spec.pipeline.stages", "is " + Text(pipeline.stages),
               "at most " + Text(stages) + ": " + why);
}

void JudgeRope(Judge& judge, const std::string& at, const Rope& rope) {
  judge.Positive(at + "rope_theta", rope.theta, 1e12);
  if (rope.type == RopeType::kDefault) return;
  const std::string path = at + "rope_scaling.";
  judge.Range(path + "factor", rope.factor, 1.0, 1e6);
  if (rope.type == RopeType::kLinear || rope.type == RopeType::kDynamic) return;
  judge.Range(path + "original_max_position_embeddings", rope.original_max_position_embeddings,
              std::int64_t{1}, static_cast<std::int64_t>(kSequenceMax));
  if (rope.type == RopeType::kLlama3) {
    const bool low = judge.Positive(path + "low_freq_factor", rope.low_freq_factor, 1e6);
    judge.Expect(!low || rope.high_freq_factor > rope.low_freq_factor, path + "high_freq_factor",
                 "is " + Text(rope.high_freq_factor),
                 "more than low_freq_factor (" + Text(rope.low_freq_factor) + ")");
    return;
  }
  judge.Expect(rope.theta > 1, at + "rope_theta", "is " + Text(rope.theta),
               "more than 1 for the type yarn");
  judge.Positive(path + "beta_fast", rope.beta_fast, 1e6);
  judge.Positive(path + "beta_slow", rope.beta_slow, 1e6);
  judge.Positive(path + "attention_factor", rope.attention_factor, 1e6);
}

}  // namespace

void JudgeLoraFields(Judge& judge, const Lora& lora, const std::string& path) {
  const std::string at = path + ".";
  judge.Range(at + "rank", lora.rank, std::uint64_t{0}, static_cast<std::uint64_t>(kWidthMax));
  judge.Positive(at + "alpha", lora.alpha, 1e6);
  const std::vector<std::string> known = Lora().targets;
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  judge.Expect(!lora.targets.empty(), at + "targets", "is empty", "one or more of " + names);
  for (std::size_t i = 0; i < lora.targets.size(); ++i) {
    const std::string& target = lora.targets[i];
    const std::string place = at + "targets[" + Text(std::uint64_t{i}) + "]";
    judge.Expect(std::ranges::find(known, target) != known.end(), place, "is " + target,
                 "one of " + names);
    judge.Expect(std::ranges::count(lora.targets, target) == 1, place, "is there twice",
                 "name it once");
  }
}

void JudgeBoundaryFields(Judge& judge, const Boundary& boundary, const std::string& path) {
  const std::string at = path + ".";
  const std::string codec(NameOf(boundary.codec));
  const auto width_max = static_cast<std::uint64_t>(kWidthMax);
  judge.Range(at + "blockSize", boundary.blockSize, std::uint64_t{1}, kBlockMax);
  judge.Range(at + "factor", boundary.factor, std::uint64_t{2}, width_max);
  const bool ranked =
      boundary.codec == BoundaryCodec::kSubspace || boundary.codec == BoundaryCodec::kAnchored;
  if (ranked) {
    judge.Range(at + "rank", boundary.rank, std::uint64_t{1}, width_max);
  } else {
    judge.Expect(boundary.rank == 0, at + "rank", "has no meaning for the codec " + codec,
                 "leave it out: it is for Subspace and Anchored");
  }
  if (boundary.codec == BoundaryCodec::kAnchored) {
    judge.Range(at + "tableRank", boundary.tableRank, std::uint64_t{0}, width_max);
    judge.Range(at + "anchorTokens", boundary.anchorTokens, std::uint64_t{1}, kAnchorTokensMax);
  } else {
    judge.Expect(boundary.anchorTokens == 1, at + "anchorTokens",
                 "has no meaning for the codec " + codec, "leave it out: it is for Anchored");
    judge.Expect(boundary.tableRank == 0, at + "tableRank", "has no meaning for the codec " + codec,
                 "leave it out: it is for Anchored");
  }
  judge.Expect(!boundary.constrainLast || boundary.codec == BoundaryCodec::kSubspace,
               at + "constrainLast", "has no meaning for the codec " + codec,
               "leave it out: it is for Subspace");
  judge.Range(at + "refreshSteps", boundary.refreshSteps, std::uint64_t{0}, kStepsMax);
  judge.Expect(boundary.refreshSteps == 0 || boundary.codec == BoundaryCodec::kSubspace,
               at + "refreshSteps", "has no meaning for the codec " + codec,
               "leave it out: it is for Subspace");
  judge.Range(at + "learningRateScale", boundary.learningRateScale, 0.0, 10.0);
  judge.Range(at + "refreshRate", boundary.refreshRate, 0.0, 10.0);
  if (!boundary.layers) return;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < boundary.layers->size(); ++i) {
    const std::uint64_t layer = (*boundary.layers)[i];
    const std::string place = at + "layers[" + Text(std::uint64_t{i}) + "]";
    if (!judge.Expect(layer > before && layer < kLayersMax, place, "is " + Text(layer),
                      "more than " + Text(before) + ", less than " + Text(kLayersMax))) {
      return;
    }
    before = layer;
  }
}

std::vector<FieldError> ValidateDecoderConfig(const DecoderConfig& config,
                                              const std::string& path) {
  Judge judge;
  const std::string at = path + ".";
  const std::int64_t one = 1;
  const bool hidden = judge.Range(at + "hidden_size", config.hidden_size, one, kWidthMax);
  judge.Range(at + "num_hidden_layers", config.num_hidden_layers, one, kLayersMax);
  const bool heads =
      judge.Range(at + "num_attention_heads", config.num_attention_heads, one, kWidthMax);
  const bool groups =
      judge.Range(at + "num_key_value_heads", config.num_key_value_heads, one, kWidthMax);
  // Without head_dim, a hidden_size that is not a multiple of the heads would be rounded; and
  // transformers refuses it.
  const bool own_head_dim = config.family == ModelFamily::kQwen3 ||
                            config.family == ModelFamily::kGemma2 ||
                            config.family == ModelFamily::kGemma3;
  const bool divided =
      !hidden || !heads || own_head_dim ||
      judge.Expect(config.hidden_size % config.num_attention_heads == 0, at + "hidden_size",
                   "is " + Text(config.hidden_size),
                   "a multiple of num_attention_heads (" + Text(config.num_attention_heads) + ")");
  if (heads && groups) {
    judge.Expect(config.num_attention_heads % config.num_key_value_heads == 0,
                 at + "num_key_value_heads", "is " + Text(config.num_key_value_heads),
                 "a divisor of num_attention_heads (" + Text(config.num_attention_heads) + ")");
  }
  if (hidden && heads && divided && judge.Range(at + "head_dim", config.head_dim, one, kWidthMax)) {
    judge.Expect(config.head_dim % 2 == 0, at + "head_dim", "is " + Text(config.head_dim),
                 "an even number, because rotary embeddings rotate pairs");
  }
  judge.Range(at + "intermediate_size", config.intermediate_size, one, kWidthMax * 4);
  judge.Range(at + "vocab_size", config.vocab_size, one, kVocabularyMax);
  judge.Range(at + "max_position_embeddings", config.max_position_embeddings, one,
              static_cast<std::int64_t>(kSequenceMax));
  judge.Positive(at + "rms_norm_eps", config.rms_norm_eps, 1);
  JudgeRope(judge, at, config.rope);
  judge.Range(at + "initializer_range", config.initializer_range, 0.0, 100.0);
  judge.Range(at + "rope_local_base_freq", config.rope_local_base_freq, 0.0, 1e12);
  judge.Range(at + "query_pre_attn_scalar", config.query_pre_attn_scalar, 0.0, 1e6);
  judge.Range(at + "attn_logit_softcapping", config.attn_logit_softcapping, 0.0, 1e6);
  judge.Range(at + "final_logit_softcapping", config.final_logit_softcapping, 0.0, 1e6);
  return judge.Take();
}

std::vector<FieldError> ValidateFit(const SwarmJob& job) {
  Judge judge;
  const Spec& spec = job.spec;
  const DecoderConfig& config = spec.model.config;
  const auto positions =
      static_cast<std::uint64_t>(std::max<std::int64_t>(config.max_position_embeddings, 0));
  judge.Expect(spec.training.sequenceLength <= positions, "spec.training.sequenceLength",
               "is " + Text(spec.training.sequenceLength),
               "at most max_position_embeddings (" + Text(positions) + ")");
  const auto layers =
      static_cast<std::uint64_t>(std::max<std::int64_t>(config.num_hidden_layers, 0));
  judge.Expect(spec.pipeline.stages <= layers, "spec.pipeline.stages",
               "is " + Text(spec.pipeline.stages),
               "at most num_hidden_layers (" + Text(layers) + "): a stage has at least one layer");
  JudgeBoundaryFit(judge, config, spec.pipeline);
  const std::uint64_t budget = spec.workers.memoryBudgetBytes;
  const bool cut = spec.pipeline.stages >= 1 && spec.pipeline.stages <= layers;
  if (budget > 0 && cut) {
    const std::uint64_t needed = NeededBudget(job);
    judge.Expect(budget >= needed, "spec.workers.memoryBudgetBytes", "is " + Text(budget),
                 "at least " + Text(needed) + ", for the graphs of two microbatches of " +
                     Text(spec.training.microbatchSize) + " × " +
                     Text(spec.training.sequenceLength) + " tokens in a stage of " +
                     Text((layers + spec.pipeline.stages - 1) / spec.pipeline.stages) +
                     " layers and as much again; lower microbatchSize, or cut the model into more"
                     " stages");
  }
  judge.Expect(spec.training.stepMode != StepMode::kLocal || spec.pipeline.stages == 1 ||
                   !config.tie_word_embeddings,
               "spec.pipeline.stages", "is " + Text(spec.pipeline.stages),
               "1: with stepMode Local, the first and the last stage cannot share the embedding"
               " (tie_word_embeddings) yet");
  if (spec.pipeline.residency == Residency::kSwap && layers > 0) {
    const std::uint64_t needed = LeastSwapMemory(job);
    const PipelineMemory& memory = spec.pipeline.memory;
    for (const auto& [name, bytes] :
         {std::pair("host", memory.host), std::pair("device", memory.device)}) {
      judge.Expect(bytes == 0 || bytes >= needed, std::string("spec.pipeline.memory.") + name,
                   "is " + Text(bytes),
                   "at least " + Text(needed) +
                       ": the largest of a layer, the embedding and the head must fit twice");
    }
  }
  // Data that are token ids already do not use the tokenizer.
  const TokenizerKind kind = spec.model.tokenizer.kind;
  const bool bytes =
      kind == TokenizerKind::kByte || (kind == TokenizerKind::kAuto && spec.model.uri.empty());
  const auto sources = spec.data.AllSources();
  const auto is_shard = [](const DataSource& source) { return source.uri.ends_with(".bin"); };
  if (bytes && !std::ranges::all_of(sources, is_shard)) {
    judge.Expect(config.vocab_size >= kByteVocabulary, "spec.model.config.vocab_size",
                 "is " + Text(config.vocab_size), "at least 256 for the tokenizer Byte");
  }
  if (std::ranges::any_of(sources, is_shard) && spec.data.tokenType == TokenType::kUInt16) {
    judge.Expect(config.vocab_size <= kUInt16Vocabulary, "spec.data.tokenType",
                 "UInt16 cannot hold a vocab_size of " + Text(config.vocab_size),
                 "write the shards as UInt32");
  }
  return judge.Take();
}

void JudgeUri(Judge& judge, const std::string& path, const std::string& uri, UriOf what) {
  const std::size_t colon = uri.find("://");
  if (colon == std::string::npos) return;
  const std::string scheme = uri.substr(0, colon), rest = uri.substr(colon + 3);
  const bool read_only = scheme == "gs" || scheme == "abfs" || scheme == "abfss";
  const bool known = scheme == "file" || scheme == "s3" || (read_only && what == UriOf::kData);
  if (!judge.Expect(known, path,
                    "has the scheme " + scheme + "://" +
                        (read_only ? ", from which data alone can be read" : ""),
                    "write a path, file:///PATH or s3://BUCKET/PREFIX")) {
    return;
  }
  if (scheme == "file") {
    judge.Expect(rest.starts_with('/'), path, "is " + uri, "file:// needs an absolute path");
  } else {
    judge.Expect(!rest.empty() && rest[0] != '/', path, "names no bucket",
                 "write " + scheme + "://BUCKET/PREFIX");
  }
}

std::vector<FieldError> ValidateResidency(const Spec& spec) {
  Judge judge;
  JudgeSwap(judge, spec);
  return judge.Take();
}

std::vector<FieldError> Validate(const SwarmJob& job) {
  Judge judge;
  const Spec& spec = job.spec;
  JudgeName(judge, job.name);
  JudgeModel(judge, spec.model);
  JudgeLora(judge, spec);
  if (spec.model.config.hidden_size != 0) {
    judge.Append(ValidateDecoderConfig(spec.model.config, "spec.model.config"));
    judge.Append(ValidateFit(job));
  }
  JudgeData(judge, spec.data);
  JudgeDocuments(judge, spec);
  JudgeUri(judge, "spec.checkpoint.uri", spec.checkpoint.uri);
  JudgeRegions(judge, spec);
  JudgeUri(judge, "spec.logging.tensorboard", spec.logging.tensorboard);
  JudgeTraining(judge, spec.training);
  judge.Expect(spec.data.validationUri.empty() ||
                   spec.training.validationSequences >= spec.training.microbatchSize,
               "spec.training.validationSequences", "is " + Text(spec.training.validationSequences),
               "at least microbatchSize (" + Text(spec.training.microbatchSize) + ")");
  JudgeOptimizer(judge, spec.optimizer);
  JudgeSchedule(judge, spec);
  JudgePipeline(judge, spec.pipeline, spec.workers);
  JudgeSwap(judge, spec);
  JudgeAudit(judge, spec);
  JudgeLocal(judge, spec);
  JudgeBoundary(judge, spec);
  judge.Range("spec.checkpoint.intervalSteps", spec.checkpoint.intervalSteps, std::uint64_t{1},
              kStepsMax);
  judge.Range("spec.checkpoint.keepLast", spec.checkpoint.keepLast, std::uint64_t{1},
              std::uint64_t{1000});
  JudgeCluster(judge, spec);
  return judge.Take();
}

}  // namespace swarm::api
