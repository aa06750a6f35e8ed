// The SwarmJob: the one object that `swarmctl run` reads and `kubectl apply` takes. Plain values
// with their defaults; parse.h reads and writes them, validate.h judges them.
//
// Units stand in the names. Members are spelled as in the manifest; an enum's spelling there is its
// name without the k (kCosine: Cosine, see enum_names.h). After parsing no default is open any
// more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace swarm::api {

/// A part of the manifest in Kubernetes' own words, which the operator passes on: JSON text; empty:
/// absent.
struct RawJson {
  std::string text;
  bool operator==(const RawJson&) const = default;
};

/// A decoder of the Llama family. Members are spelled as the keys of Hugging Face's config.json.
struct LlamaConfig {
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0 in the file: as num_attention_heads
  std::int64_t head_dim = 0;             ///< 0 in the file: hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  bool operator==(const LlamaConfig&) const = default;
};

enum class ModelInit { kRandom, kPretrained };
enum class TokenizerKind { kByte, kSentencePiece };

struct Tokenizer {
  TokenizerKind kind = TokenizerKind::kByte;
  std::string uri;  ///< of a SentencePiece .model; a uri implies SentencePiece
  bool operator==(const Tokenizer&) const = default;
};

struct Model {
  std::string uri;                      ///< a Hugging Face folder; excludes config in the manifest
  ModelInit init = ModelInit::kRandom;  ///< with a uri the default is Pretrained
  LlamaConfig config;                   ///< hidden_size 0: not given (yet): it stands in the folder
  Tokenizer tokenizer;
  bool operator==(const Model&) const = default;
};

enum class TokenType { kUInt16, kUInt32 };

struct Data {
  std::string uri;  ///< pre-tokenized (.bin) or text (any other file), or a folder of .bin and .txt
  std::string validationUri;                 ///< likewise; empty: no validation
  TokenType tokenType = TokenType::kUInt16;  ///< of .bin shards
  bool operator==(const Data&) const = default;
};

struct Storage {
  std::string endpoint;  ///< of an S3-compatible server; empty: AWS
  std::string region;
  std::string secretName;
  bool operator==(const Storage&) const = default;
};

enum class Precision { kFP32, kBF16 };
enum class StepMode { kSync, kDelayed };
enum class Accumulation { kFloat, kExact };

/// What replicas of a stage send each other when they sum gradients.
enum class ReduceCodec { kNone, kBF16, kInt8 };

struct Training {
  std::uint64_t seed = 0;
  std::uint64_t maxSteps = 0;
  std::uint64_t globalBatchSize = 0;  ///< sequences a step
  std::uint64_t microbatchSize = 1;   ///< sequences a microbatch
  std::uint64_t sequenceLength = 0;   ///< tokens
  double maxGradNorm = 1.0;           ///< 0: no clipping
  Precision precision = Precision::kFP32;
  StepMode stepMode = StepMode::kSync;
  Accumulation accumulation = Accumulation::kFloat;
  ReduceCodec reduceCodec = ReduceCodec::kNone;  ///< kNone with kExact
  std::uint64_t validationIntervalSteps = 50;
  std::uint64_t validationSequences = 16;
  bool operator==(const Training&) const = default;
};

enum class OptimizerType { kAdamW, kLAMB };

struct Optimizer {
  OptimizerType type = OptimizerType::kAdamW;
  double learningRate = 3e-4;
  double weightDecay = 0.1;  ///< of matrices; norms' gains are not decayed
  double beta1 = 0.9;        ///< in the manifest: betas: [0.9, 0.95]
  double beta2 = 0.95;
  double epsilon = 1e-8;
  bool operator==(const Optimizer&) const = default;
};

enum class ScheduleType { kConstant, kCosine, kLinear };

struct Schedule {
  ScheduleType type = ScheduleType::kCosine;
  std::uint64_t warmupSteps = 0;
  double finalFraction = 0.1;  ///< of the learning rate, at maxSteps
  bool operator==(const Schedule&) const = default;
};

enum class Residency { kResident };
/// What numbers are sent in: float32, bfloat16, or a byte each with a scale for every block of
/// them.
enum class NumberCodec { kNone, kBF16, kInt8, kInt8Dynamic };
/// What crosses a boundary: the activations themselves, as one of NumberCodec, or fewer numbers
/// that a learned part of the model makes of them (worker/model/arithmetic/boundary.h says what
/// each computes).
enum class BoundaryCodec {
  kNone,
  kBF16,
  kInt8,
  kInt8Dynamic,
  kBottleneck,
  kMaxout,
  kSubspace,
  kAnchored
};

/// The boundaries of a job are alike. See boundary.h for what follows from these fields.
struct Boundary {
  BoundaryCodec codec = BoundaryCodec::kNone;
  NumberCodec coefficients = NumberCodec::kBF16;  ///< of a learned boundary: what its numbers are
                                                  ///< sent in; without influence on others
  std::optional<NumberCodec> gradientCodec;       ///< of what comes back; absent: as what goes
  std::uint64_t blockSize = 256;   ///< numbers that share a scale in Int8, Int8Dynamic
  std::uint64_t rank = 0;          ///< Subspace, Anchored: numbers a token
  std::uint64_t factor = 2;        ///< Bottleneck, Maxout: hidden_size / numbers a token
  std::uint64_t tableRank = 0;     ///< Anchored: of a factorized token table; 0: a full one
  std::uint64_t anchorTokens = 1;  ///< Anchored: tokens, the last the row's own, that it looks up
  double learningRateScale = 0.1;  ///< Bottleneck, Maxout, Anchored: the encoder and the decoder
                                   ///< learn at this many times optimizer.learningRate
  bool constrainLast = false;      ///< Subspace: the layers behind the last boundary as well
  std::uint64_t refreshSteps = 0;  ///< Subspace: updates between turns of the subspace; 0: never
  double refreshRate = 0.1;        ///< how far it is turned
  /// The layers between two boundaries (and before the first, and behind the last) use the weights
  /// of the first of them.
  bool sharedLayers = false;
  /// The decoder layers before which a boundary lies, ascending. Absent: where the stages of the
  /// job are cut. Also where nothing is cut, a boundary is computed.
  std::optional<std::vector<std::uint64_t>> layers;
  bool operator==(const Boundary&) const = default;
};

struct Pipeline {
  std::uint64_t stages = 1;
  std::uint64_t minReplicasPerStage = 1;
  Residency residency = Residency::kResident;
  /// Microbatches that a worker holds between forward and backward, each with what its forward
  /// keeps for the backward, if that is more than its device has room for. 0: as many as keep it
  /// busy, given how far apart the stages are.
  std::uint64_t inFlightMax = 0;
  Boundary boundary;
  bool operator==(const Pipeline&) const = default;
};

struct Checkpoint {
  std::string uri;  ///< empty in `swarmctl run`: OUT/checkpoints
  std::uint64_t intervalSteps = 100;
  std::uint64_t keepLast = 3;
  bool operator==(const Checkpoint&) const = default;
};

/// Where workers' pods go. `swarmctl run` checks pools and ignores them.
struct Pool {
  std::string name;                          ///< a label value; unique within the job
  std::optional<std::uint64_t> maxReplicas;  ///< absent: as many as workers.replicas
  std::uint64_t pendingSeconds = 300;        ///< a pod waiting longer: the next pool is used
  std::uint64_t returnAfterSeconds = 900;    ///< between probes whether a dry pool has come back
  std::map<std::string, std::string> nodeSelector;
  RawJson tolerations;  ///< a list, as in a pod's spec
  RawJson resources;    ///< limits and requests, as in a container; any accelerator's name
  bool operator==(const Pool&) const = default;
};

struct Workers {
  /// Of all stages together. In the file 0 stands for stages × minReplicasPerStage, for both.
  std::uint64_t replicas = 0;
  std::uint64_t minReplicas = 0;
  RawJson podTemplate;  ///< in the manifest: template
  /// By preference. At least one: a manifest that names none means one without any wishes.
  std::vector<Pool> pools = {{.name = "default"}};
  bool operator==(const Workers&) const = default;
};

struct Trainer {
  RawJson podTemplate;  ///< in the manifest: template
  bool operator==(const Trainer&) const = default;
};

struct Preemption {
  std::uint64_t drainSeconds = 25;  ///< what a worker may take to hand over
  bool operator==(const Preemption&) const = default;
};

struct FailurePolicy {
  std::uint64_t maxFailures = 10;  ///< with one more within the window the job fails
  std::uint64_t windowSeconds = 3600;
  bool operator==(const FailurePolicy&) const = default;
};

struct Spec {
  bool suspend = false;
  std::string managedBy;  ///< another controller than ours, as Kueue's MultiKueue; empty: ours
  Model model;
  Data data;
  Storage storage;
  Training training;
  Optimizer optimizer;
  Schedule schedule;
  Pipeline pipeline;
  Checkpoint checkpoint;
  Workers workers;
  Trainer trainer;
  Preemption preemption;
  FailurePolicy failurePolicy;
  std::optional<std::uint64_t> ttlSecondsAfterFinished;  ///< absent: the object stays
  bool operator==(const Spec&) const = default;
};

struct SwarmJob {
  std::string name;
  RawJson metadata;  ///< what else stands there: labels, annotations, namespace
  Spec spec;

  /// M: microbatches a step. Requires a valid job.
  std::uint64_t microbatches() const {
    return spec.training.globalBatchSize / spec.training.microbatchSize;
  }
  bool operator==(const SwarmJob&) const = default;
};

}  // namespace swarm::api
