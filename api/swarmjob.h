// The manifest of a SwarmJob, for `swarmctl run` and for `kubectl apply`. Plain values with their
// defaults; parse.h reads and writes them, validate.h checks them.
//
// Names contain units. Members have the spelling of the manifest; the spelling of an enumeration is
// its name without the k (kCosine: Cosine, see enum_names.h). Parsing fills in all defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace swarm::api {

/// A part of the manifest that Kubernetes defines and the operator passes on, as JSON text. Empty:
/// it is absent.
struct RawJson {
  std::string text;
  bool operator==(const RawJson&) const = default;
};

/// The families of decoders. Each is a description of the same decoder by values; see
/// model/decoder_config.h.
enum class ModelFamily { kLlama, kMistral, kQwen2, kQwen3, kSmolLM3, kGemma2, kGemma3 };

/// How a rotary embedding stretches its wave lengths, so that a model can read longer sequences
/// than it was pre-trained with.
enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLlama3 };

/// The rotary embedding. Members that have no meaning for the type have their defaults.
struct Rope {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1;  ///< all types but kDefault
  /// kYarn, kLlama3: the longest sequence of pre-training.
  std::int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< kLlama3
  double beta_fast = 32, beta_slow = 1;              ///< kYarn
  double attention_factor = 1;                       ///< kYarn: of cosine and of sine
  bool truncate = true;                              ///< kYarn
  bool operator==(const Rope&) const = default;
};

/// What may differ between the layers of a decoder.
struct LayerOptions {
  std::int64_t window = 0;  ///< tokens that a token sees, itself included; 0: all before it
  bool rotary = true;       ///< whether queries and keys are rotated
  bool operator==(const LayerOptions&) const = default;
};

/// Of the gated MLP: x sigmoid(x), or x Φ(x) with Φ approximated by tanh.
enum class Activation { kSilu, kGeluTanh };

/// A decoder. Members have the names of the keys in Hugging Face's config.json, where there are
/// such keys. What a family switches on follows from `family` when a config is read.
struct DecoderConfig {
  ModelFamily family = ModelFamily::kLlama;  ///< model_type; the computation does not look at it
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0 in the file means num_attention_heads
  std::int64_t head_dim = 0;             ///< 0 in the file means hidden_size / num_attention_heads
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  Rope rope;
  double rope_local_base_freq =
      0;  ///< above 0: base of the unstretched rope of layers with a window
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  bool attention_input_bias = false;  ///< of queries, keys and values
  bool head_norms = false;            ///< RMSNorm of each head's query and key, before rotation
  bool post_norms = false;            ///< RMSNorm of what attention and MLP add to the residual
  bool unit_offset_gains = false;     ///< the gain of an RMSNorm is 1 + its weight
  bool scaled_embedding = false;      ///< rows of the embedding are multiplied by √hidden_size
  Activation activation = Activation::kSilu;
  double query_pre_attn_scalar = 0;    ///< scores are divided by its root; 0: head_dim
  double attn_logit_softcapping = 0;   ///< c > 0: scores s become c tanh(s / c)
  double final_logit_softcapping = 0;  ///< the same of logits
  std::vector<LayerOptions> layers;    ///< empty: the defaults for all of them
  bool operator==(const DecoderConfig&) const = default;
};

enum class ModelInit { kRandom, kPretrained };
/// Auto: that of the model's folder. Where it has none, or there is no folder: Byte for text, and
/// none for token ids.
enum class TokenizerKind { kAuto, kByte, kSentencePiece, kHuggingFace };

struct Tokenizer {
  TokenizerKind kind = TokenizerKind::kAuto;
  /// Of a SentencePiece .model file, which implies SentencePiece; or of a tokenizer.json or a
  /// folder with one, which implies HuggingFace.
  std::string uri;
  bool operator==(const Tokenizer&) const = default;
};

/// Low-rank adapters: alpha / rank B A is added to a matrix [n, m], with B [n, rank] and A [rank,
/// m]. They are all that is trained; the weights of the model stay as they are.
struct Lora {
  std::uint64_t rank = 0;  ///< 0: none, and the model is trained
  double alpha = 16;
  /// Which matrices of each layer: last parts of their names in the model.
  std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                      "gate_proj", "up_proj", "down_proj"};
  double scale() const { return alpha / static_cast<double>(rank); }
  bool operator==(const Lora&) const = default;
};

struct Model {
  std::string uri;                      ///< a Hugging Face folder; a manifest has uri or config
  ModelInit init = ModelInit::kRandom;  ///< with a uri the default is Pretrained
  DecoderConfig config;                 ///< hidden_size 0: not read yet from the folder of uri
  Tokenizer tokenizer;
  Lora lora;
  /// Whether the first and the last stage train one table.
  bool trains_tied_head() const { return config.tie_word_embeddings && lora.rank == 0; }
  bool operator==(const Model&) const = default;
};

enum class TokenType { kUInt16, kUInt32 };

/// A document that cannot be read: Skip leaves it out and counts it.
enum class OnBadDocument { kFail, kSkip };

/// What the objects in JSON lines are: texts; a prompt and its completion; a conversation.
enum class DataFormat { kText, kPromptCompletion, kChat };

/// What documents that share a sequence know of each other: a token sees all before it; or it sees
/// those of its own document alone, whose positions begin anew.
enum class DocumentView { kJoined, kSeparate };

/// One of the data of a mixture.
struct DataSource {
  std::string uri;    ///< as Data::uri
  double weight = 1;  ///< its part of all sequences, relative to those of the others
  bool operator==(const DataSource&) const = default;
};

struct Data {
  /// A file, a folder or a pattern: token ids (.bin), Parquet (.parquet), JSON lines (.jsonl,
  /// .ndjson, .json) or text (.txt, and any other file that is named itself); the latter two also
  /// with .gz or .zst.
  std::string uri;
  std::optional<std::vector<DataSource>> sources;  ///< instead of uri: a mixture
  std::string validationUri;                       ///< as uri; empty: no validation
  TokenType tokenType = TokenType::kUInt16;        ///< of .bin shards
  DataFormat format = DataFormat::kText;           ///< of JSON lines
  std::string textField = "text";                  ///< of Text; a column of Parquet
  DocumentView documents = DocumentView::kJoined;
  OnBadDocument onBadDocument = OnBadDocument::kFail;
  /// What the trainer keeps of all data in its memory: ids of text, and what it has read ahead of
  /// shards.
  std::uint64_t cacheBytes = std::uint64_t{1} << 30;

  /// The training data: sources, or uri as the only one.
  std::vector<DataSource> AllSources() const {
    return sources.value_or(std::vector<DataSource>{{.uri = uri}});
  }
  bool operator==(const Data&) const = default;
};

/// Copies of what a job reads, near the workers of a region.
struct RegionStorage {
  std::string region;                 ///< of workers, as they say it
  std::string checkpointUri;          ///< as Checkpoint::uri; empty: no copies of checkpoints
  std::vector<std::string> dataUris;  ///< one for each of Data::AllSources(); empty: no copies
  std::string validationUri;          ///< as Data::validationUri; empty: no copy
  std::string endpoint;               ///< as Storage::endpoint
  std::string bucketRegion;           ///< as Storage::region
  std::string secretName;             ///< with keys of its own; empty: those of Storage
  bool operator==(const RegionStorage&) const = default;
};

struct Storage {
  std::string endpoint;  ///< of an S3-compatible server; empty: AWS
  std::string region;    ///< of the bucket, in the words of its server
  std::string secretName;
  std::vector<RegionStorage> regions;  ///< one for each region with copies
  bool operator==(const Storage&) const = default;
};

/// What weights and activations are in products. FP16 is for devices without fast bfloat16.
enum class Precision { kFP32, kBF16, kFP16 };
/// What a step of the job is: the gradients of its own weights, or of those before; or a round, in
/// which replicas take steps of their own.
enum class StepMode { kSync, kDelayed, kLocal };
enum class Accumulation { kFloat, kExact };

/// How replicas of a stage encode the gradients that they send each other for the sum.
enum class ReduceCodec { kNone, kBF16, kInt8, kInt4 };

/// StepMode::kLocal. A round has innerSteps * microbatches microbatches for each replica that
/// counts in the mean.
struct LocalSteps {
  std::uint64_t innerSteps = 50;   ///< of a replica in a round
  std::uint64_t microbatches = 1;  ///< of an inner step; the last of a round may have fewer
  std::optional<double> outerLearningRate;  ///< none: outer_step.h, as of the momentum
  std::optional<double> outerMomentum;
  bool overlap = false;  ///< a round's sum is made while the next round computes
  /// Of the weights. A round exchanges one of them, so each is exchanged every so many rounds.
  std::uint64_t fragments = 1;
  bool operator==(const LocalSteps&) const = default;
};

/// Microbatches that are executed a second time, by other workers, whose results must be the same.
struct Audit {
  double fraction = 0;  ///< of all; above 0 requires Accumulation::kExact
  bool operator==(const Audit&) const = default;
};

struct Training {
  std::uint64_t seed = 0;
  std::uint64_t maxSteps = 0;
  std::uint64_t globalBatchSize = 0;  ///< sequences per step
  std::uint64_t microbatchSize = 1;   ///< sequences per microbatch
  std::uint64_t sequenceLength = 0;   ///< tokens
  double maxGradNorm = 1.0;           ///< 0: no clipping
  double zLoss = 0;  ///< weight of the squared log of the sum over the vocabulary of exp(logit)
  Precision precision = Precision::kFP32;
  StepMode stepMode = StepMode::kSync;
  LocalSteps local;
  Accumulation accumulation = Accumulation::kFloat;
  ReduceCodec reduceCodec = ReduceCodec::kNone;  ///< kNone with kExact
  Audit audit;
  std::uint64_t validationIntervalSteps = 50;
  std::uint64_t validationSequences = 16;

  /// Whether a step is computed while the update of the one before is made. It reads the version
  /// before that, so two versions are held.
  bool overlaps_steps() const {
    return stepMode == StepMode::kDelayed || (stepMode == StepMode::kLocal && local.overlap);
  }
  bool operator==(const Training&) const = default;
};

/// Muon steps the matrices of layers; AdamW steps what else there is, at the same learning rate.
enum class OptimizerType { kAdamW, kLAMB, kMuon };

struct Optimizer {
  OptimizerType type = OptimizerType::kAdamW;
  double learningRate = 3e-4;
  double weightDecay = 0.1;     ///< of matrices; gains of norms and biases are not decayed
  bool decayEmbeddings = true;  ///< whether it is also of the embedding and a tied head
  double beta1 = 0.9;           ///< in the manifest: betas: [0.9, 0.95]
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.95;  ///< Muon
  bool operator==(const Optimizer&) const = default;
};

/// WSD: warm-up, stable, decay.
enum class ScheduleType { kConstant, kCosine, kLinear, kWSD, kInverseSquareRoot };
enum class DecayShape { kLinear, kCosine, kSquareRoot };

struct Schedule {
  ScheduleType type = ScheduleType::kCosine;
  std::uint64_t warmupSteps = 0;
  std::uint64_t decaySteps = 0;  ///< WSD: the last steps, in which the learning rate falls
  DecayShape decayShape = DecayShape::kLinear;  ///< WSD
  /// The learning rate at maxSteps, as a fraction of the full one. Not of Constant and
  /// InverseSquareRoot.
  double finalFraction = 0.1;
  bool operator==(const Schedule&) const = default;
};

/// Where a stage's masters and moments are, and its update runs: on the device; or in the memory of
/// the host; or on a disk, from where runs of layers come when they are needed.
enum class Residency { kResident, kOffload, kSwap };
/// The encoding of numbers: float32, bfloat16, or one byte each with a scale per block.
enum class NumberCodec { kNone, kBF16, kInt8, kInt8Dynamic };
/// What crosses a boundary: the activations, in an encoding of NumberCodec, or fewer numbers that a
/// learned part of the model computes from them (see worker/model/arithmetic/boundary.h).
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

/// All boundaries of a job have the same description. boundary.h has properties that follow from
/// it.
struct Boundary {
  BoundaryCodec codec = BoundaryCodec::kNone;
  NumberCodec coefficients = NumberCodec::kBF16;  ///< of a learned boundary: how its numbers are
                                                  ///< encoded; ignored for others
  std::optional<NumberCodec> gradientCodec;       ///< of the gradients; absent: as forward
  std::uint64_t blockSize = 256;  ///< numbers that share a scale in Int8, Int8Dynamic
  std::uint64_t rank = 0;         ///< Subspace, Anchored: numbers per token
  std::uint64_t factor = 2;       ///< Bottleneck, Maxout: hidden_size / numbers per token
  std::uint64_t tableRank = 0;    ///< Anchored: of a factorized token table; 0: a full one
  std::uint64_t anchorTokens =
      1;  ///< Anchored: tokens that are looked up; the last is the row's own
  double learningRateScale = 0.1;  ///< Bottleneck, Maxout, Anchored: the learning rate of encoder
                                   ///< and decoder, relative to optimizer.learningRate
  bool constrainLast = false;      ///< Subspace: also the layers behind the last boundary
  std::uint64_t refreshSteps = 0;  ///< Subspace: updates between turns of the subspace; 0: never
  double refreshRate = 0.1;        ///< how far each turn goes
  /// The layers between two boundaries (and before the first, and behind the last) use the weights
  /// of the first of them.
  bool sharedLayers = false;
  /// The decoder layers before which a boundary lies, ascending. Absent: the layers at which the
  /// stages of the job are cut. A boundary is also computed where the model is not cut.
  std::optional<std::vector<std::uint64_t>> layers;
  bool operator==(const Boundary&) const = default;
};

/// What a stage computes again for its backward instead of keeping it: nothing; what its layers
/// computed from their inputs; what it computed from its input.
enum class Recompute { kNone, kLayers, kFull };

/// How the replicas of a stage update it: each the whole; or two replicas each tensor, whose
/// optimizer state they alone hold, and the others take its weights.
enum class ShardUpdate { kNone, kMoments };

/// What a worker with Residency::kSwap has for its stage.
struct PipelineMemory {
  std::uint64_t host = 0;  ///< bytes of memory; 0: half of what the machine has
  std::uint64_t device =
      0;  ///< bytes for segments where they are computed; 0: half of what is free on the device
  std::string scratch;  ///< a folder on a local disk; empty: that for temporary files
  bool operator==(const PipelineMemory&) const = default;
};

struct Pipeline {
  std::uint64_t stages = 1;
  std::uint64_t minReplicasPerStage = 1;
  /// Each stage keeps replicas in two regions, as far as there are workers for it.
  bool surviveRegionLoss = false;
  std::optional<Residency> residency;  ///< absent: Resident where the device has room
  PipelineMemory memory;
  /// The largest number of microbatches that a worker holds between forward and backward. 0: as
  /// many as keep it busy, given the distance between the stages, and at most 16 for each stage.
  std::uint64_t inFlightMax = 0;
  Recompute recompute = Recompute::kNone;
  ShardUpdate shardUpdate = ShardUpdate::kNone;
  Boundary boundary;
  bool operator==(const Pipeline&) const = default;
};

struct Checkpoint {
  std::string uri;  ///< empty: OUT/checkpoints of `swarmctl run`
  std::uint64_t intervalSteps = 100;
  std::uint64_t keepLast = 3;
  bool operator==(const Checkpoint&) const = default;
};

/// Where the numbers of steps.jsonl go besides.
struct Logging {
  std::string tensorboard;  ///< a folder for TensorBoard's event files; empty: none
  bool operator==(const Logging&) const = default;
};

/// What a worker finds where it runs, for plans; with the names and meanings of a fleet file
/// (docs/fleet.md). 0 is not said.
struct Machine {
  std::string region;
  double teraflops = 0;  ///< as achieved
  double memoryGiB = 0;
  double deviceMemoryGiB = 0;
  double diskMBps = 0;
  double diskSecondsPerGiB = 0;  ///< of a core, for what the disk reads and writes
  double toDeviceMBps = 0;       ///< from the memory of the host to the device's
  double fromDeviceMBps = 0;     ///< and back
  double memoryMBps = 0;         ///< copies within the memory of the host
  double updateMillions = 0;     ///< 10^6 parameters a second that the host updates
  double uploadMbps = 0;
  double downloadMbps = 0;
  double dollarsPerHour = 0;
  double lossesPerHour = 0;
  double returnSeconds = 0;
  bool operator==(const Machine&) const = default;
};

/// Where worker pods go. `swarmctl run` checks pools, and ignores them otherwise.
struct Pool {
  std::string name;     ///< a label value, unique within the job
  std::string cluster;  ///< whose satellite makes its pods; empty: the job's own
  std::optional<std::uint64_t> maxReplicas;  ///< absent: no limit
  std::uint64_t pendingSeconds = 300;        ///< if a pod waits longer, the next pool is used
  std::uint64_t returnAfterSeconds = 900;    ///< between probes for the return of capacity
  std::map<std::string, std::string> nodeSelector;
  RawJson matchExpressions;        ///< a list, as in a term of node affinity; a node meets them all
  RawJson tolerations;             ///< a list, as in a pod's spec
  RawJson resources;               ///< limits and requests, as in a container; any accelerator
  RawJson podTemplate;             ///< in the manifest: template; merged over that of all workers
  std::optional<Machine> machine;  ///< of each of its workers; all pools have one, or none
  bool operator==(const Pool&) const = default;
};

/// Machines without Kubernetes that join with a token (`swarmctl token create JOB --pool NAME`).
/// The operator makes no pods of it.
struct MachinePool {
  std::string name;                          ///< unique within the job
  std::optional<std::uint64_t> maxReplicas;  ///< machines at a time; absent: no limit
  double dollarsPerHour = 0;                 ///< of one machine
  bool operator==(const MachinePool&) const = default;
};

/// What bytes between the workers of two regions cost. It has the names and meanings of a link in a
/// fleet file (docs/planner.md).
struct TrafficPrice {
  std::vector<std::string> between;  ///< two regions, "*" is any
  double dollarsPerGB = 0;           ///< of 10^9 bytes, in either direction
  bool operator==(const TrafficPrice&) const = default;
};

struct Workers {
  /// Both are for all stages together. 0 in the file means stages × minReplicasPerStage.
  std::uint64_t replicas = 0;
  std::uint64_t minReplicas = 0;
  /// Bytes that a worker may hold beside the state that it serves. 0: as many as its machine has
  /// room for.
  std::uint64_t memoryBudgetBytes = 0;
  RawJson podTemplate;  ///< in the manifest: template
  /// In order of preference; at least one. A manifest without pools gets one without constraints.
  std::vector<Pool> pools = {{.name = "default"}};
  std::vector<MachinePool> machinePools;  ///< beside `replicas`; empty: no machine may join
  std::vector<TrafficPrice> traffic;  ///< the last that fits counts; none fits: it costs nothing
  bool operator==(const Workers&) const = default;
};

struct Trainer {
  bool allowSpot = false;  ///< its pod may run on spot nodes
  RawJson podTemplate;     ///< in the manifest: template
  bool operator==(const Trainer&) const = default;
};

struct Preemption {
  std::uint64_t drainSeconds = 25;  ///< the time that a worker has to hand over its work
  bool operator==(const Preemption&) const = default;
};

struct FailurePolicy {
  std::uint64_t maxFailures = 10;  ///< the job fails with one more within the window
  std::uint64_t windowSeconds = 3600;
  bool operator==(const FailurePolicy&) const = default;
};

/// What a job may cost. Once its workers have cost that much, the operator suspends it.
struct Budget {
  double dollars = 0;
  bool operator==(const Budget&) const = default;
};

struct Spec {
  bool suspend = false;
  std::string managedBy;  ///< another controller, such as Kueue's MultiKueue; empty: this operator
  std::optional<Budget> budget;  ///< absent: no limit. Each pool has a price if there is one
  Model model;
  Data data;
  Storage storage;
  Training training;
  Optimizer optimizer;
  Schedule schedule;
  Pipeline pipeline;
  Checkpoint checkpoint;
  Logging logging;
  Workers workers;
  Trainer trainer;
  Preemption preemption;
  FailurePolicy failurePolicy;
  std::optional<std::uint64_t> ttlSecondsAfterFinished;  ///< absent: the object is not deleted
  bool operator==(const Spec&) const = default;
};

struct SwarmJob {
  std::string name;
  RawJson metadata;  ///< the rest of it: labels, annotations, namespace
  Spec spec;

  /// M, the number of microbatches per step. Requires a valid job.
  std::uint64_t microbatches() const {
    return spec.training.globalBatchSize / spec.training.microbatchSize;
  }
  bool operator==(const SwarmJob&) const = default;
};

}  // namespace swarm::api
