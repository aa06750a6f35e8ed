// Properties of reading and writing: for any job, the worker reads what the trainer sends, to the
// last bit; and no text makes the reader fail.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "api/testing/test_manifest.h"

namespace swarm::api {
namespace {

double FiniteDouble() {
  // Any bit pattern: rapidcheck's own doubles would not catch a lossy spelling.
  const auto bits = *rc::gen::arbitrary<std::uint64_t>();
  const auto value = std::bit_cast<double>(bits);
  return std::isfinite(value) ? value : 1.0 / 3.0;
}

std::uint64_t Number() { return *rc::gen::arbitrary<std::uint64_t>(); }
std::int64_t Size() { return *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 62); }
template <typename E>
E Either(E a, E b) {
  return *rc::gen::element(a, b);
}

Pool AnyPool() {
  Pool pool{.name = *rc::gen::element("spot", "on-demand"),
            .cluster = *rc::gen::element("", "west"),
            .pendingSeconds = Number(),
            .returnAfterSeconds = Number()};
  if (*rc::gen::arbitrary<bool>()) pool.maxReplicas = Number();
  if (*rc::gen::arbitrary<bool>()) pool.nodeSelector = {{"zone", "a"}, {"gpu", ""}};
  pool.matchExpressions.text =
      *rc::gen::element("", R"([{"key":"zone","operator":"DoesNotExist"}])");
  pool.podTemplate.text = *rc::gen::element("", R"({"spec":{"hostNetwork":true}})");
  pool.tolerations.text = *rc::gen::element("", R"([{"operator":"Exists"}])");
  pool.resources.text = *rc::gen::element("", R"({"limits":{"amd.com/gpu":1}})");
  if (*rc::gen::arbitrary<bool>()) {
    pool.machine = Machine{.region = *rc::gen::element("", "eu"),
                           .teraflops = FiniteDouble(),
                           .memoryGiB = FiniteDouble(),
                           .deviceMemoryGiB = FiniteDouble(),
                           .diskMBps = FiniteDouble(),
                           .diskSecondsPerGiB = FiniteDouble(),
                           .toDeviceMBps = FiniteDouble(),
                           .fromDeviceMBps = FiniteDouble(),
                           .memoryMBps = FiniteDouble(),
                           .updateMillions = FiniteDouble(),
                           .uploadMbps = FiniteDouble(),
                           .downloadMbps = FiniteDouble(),
                           .dollarsPerHour = FiniteDouble(),
                           .lossesPerHour = FiniteDouble(),
                           .returnSeconds = FiniteDouble()};
  }
  return pool;
}

Boundary AnyBoundary() {
  Boundary boundary{
      .codec = Either(BoundaryCodec::kAnchored, BoundaryCodec::kInt8),
      .coefficients = Either(NumberCodec::kNone, NumberCodec::kInt8Dynamic),
      .gradientCodec = Either(std::optional<NumberCodec>(), std::optional(NumberCodec::kBF16)),
      .blockSize = Number(),
      .rank = Number(),
      .factor = Number(),
      .tableRank = Number(),
      .anchorTokens = Number(),
      .learningRateScale = FiniteDouble(),
      .constrainLast = *rc::gen::arbitrary<bool>(),
      .refreshSteps = Number(),
      .refreshRate = FiniteDouble(),
      .sharedLayers = *rc::gen::arbitrary<bool>(),
      .layers = {}};
  if (*rc::gen::arbitrary<bool>()) {
    boundary.layers = *rc::gen::arbitrary<std::vector<std::uint64_t>>();
  }
  return boundary;
}

Rope AnyRope() {
  Rope rope{.theta = FiniteDouble()};
  rope.type = *rc::gen::element(RopeType::kDefault, RopeType::kLinear, RopeType::kDynamic,
                                RopeType::kYarn, RopeType::kLlama3);
  if (rope.type == RopeType::kDefault) return rope;
  rope.factor = FiniteDouble();
  if (rope.type == RopeType::kYarn || rope.type == RopeType::kLlama3) {
    rope.original_max_position_embeddings = Size();
  }
  if (rope.type == RopeType::kLlama3) {
    rope.low_freq_factor = FiniteDouble();
    rope.high_freq_factor = FiniteDouble();
  }
  if (rope.type == RopeType::kYarn) {
    rope.beta_fast = FiniteDouble();
    rope.beta_slow = FiniteDouble();
    rope.attention_factor = FiniteDouble();
    rope.truncate = *rc::gen::arbitrary<bool>();
  }
  return rope;
}

/// Options of layers that a config of the family can say. None where all are the defaults.
std::vector<LayerOptions> AnyLayers(ModelFamily family) {
  std::vector<LayerOptions> layers(*rc::gen::inRange<std::size_t>(1, 9));
  const std::int64_t window = *rc::gen::inRange(1, 9);
  for (LayerOptions& layer : layers) {
    if (family == ModelFamily::kMistral || *rc::gen::arbitrary<bool>()) layer.window = window;
    if (family == ModelFamily::kSmolLM3) layer.rotary = *rc::gen::arbitrary<bool>();
  }
  const bool differ =
      std::ranges::any_of(layers, [](const auto& l) { return l != LayerOptions(); });
  return differ ? layers : std::vector<LayerOptions>();
}

DecoderConfig AnyDecoderConfig() {
  DecoderConfig config = DefaultsOf(*rc::gen::element(
      ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kQwen2, ModelFamily::kQwen3,
      ModelFamily::kSmolLM3, ModelFamily::kGemma2, ModelFamily::kGemma3));
  config.num_hidden_layers = 7;
  if (config.family != ModelFamily::kLlama) {
    config.layers = AnyLayers(config.family);
    if (!config.layers.empty()) {
      config.num_hidden_layers = static_cast<std::int64_t>(config.layers.size());
    }
  }
  for (std::int64_t* size :
       {&config.hidden_size, &config.num_attention_heads, &config.num_key_value_heads,
        &config.head_dim, &config.intermediate_size, &config.vocab_size,
        &config.max_position_embeddings}) {
    *size = Size();
  }
  config.rms_norm_eps = FiniteDouble();
  config.rope = AnyRope();
  config.tie_word_embeddings = *rc::gen::arbitrary<bool>();
  config.initializer_range = FiniteDouble();
  if (config.post_norms) {
    config.query_pre_attn_scalar = FiniteDouble();
    config.attn_logit_softcapping = Either(0.0, std::abs(FiniteDouble()));
    config.final_logit_softcapping = Either(0.0, std::abs(FiniteDouble()));
  }
  if (config.family == ModelFamily::kGemma3) config.rope_local_base_freq = FiniteDouble();
  return config;
}

SwarmJob AnyJob() {
  SwarmJob job;
  job.name = *rc::gen::string<std::string>();
  for (char& c : job.name) c = static_cast<char>(c & 0x7f);
  job.metadata.text = *rc::gen::element(std::string(), std::string(R"({"labels":{"a":"b"}})"));
  Spec& spec = job.spec;
  spec.suspend = *rc::gen::arbitrary<bool>();
  spec.model.uri = *rc::gen::element(std::string(), std::string("s3://bucket/model"));
  spec.model.init = Either(ModelInit::kRandom, ModelInit::kPretrained);
  spec.model.config = AnyDecoderConfig();
  spec.model.tokenizer = *rc::gen::element(Tokenizer{}, Tokenizer{TokenizerKind::kByte, ""},
                                           Tokenizer{TokenizerKind::kSentencePiece, "t.model"},
                                           Tokenizer{TokenizerKind::kHuggingFace, "folder"});
  spec.model.lora = {Number(), FiniteDouble(), {"q_proj", "down_proj"}};
  spec.logging.tensorboard = *rc::gen::element("", "s3://bucket/curves");
  spec.data = {"corpus",
               std::nullopt,
               "validation",
               Either(TokenType::kUInt16, TokenType::kUInt32),
               Either(DataFormat::kPromptCompletion, DataFormat::kChat),
               "content",
               Either(DocumentView::kJoined, DocumentView::kSeparate),
               Either(OnBadDocument::kFail, OnBadDocument::kSkip),
               Number()};
  if (*rc::gen::arbitrary<bool>()) {
    spec.data.uri.clear();
    spec.data.sources = {{"a", FiniteDouble()}, {"b", 1}};
  }
  spec.storage = {"http://127.0.0.1:9000", "region", ""};
  spec.training = {
      Number(),
      Number(),
      Number(),
      Number(),
      Number(),
      FiniteDouble(),
      FiniteDouble(),
      Either(Precision::kFP16, Precision::kBF16),
      Either(StepMode::kDelayed, StepMode::kLocal),
      {Number(), Number(), FiniteDouble(), FiniteDouble(), *rc::gen::arbitrary<bool>()},
      Either(Accumulation::kFloat, Accumulation::kExact),
      *rc::gen::element(ReduceCodec::kBF16, ReduceCodec::kInt8, ReduceCodec::kInt4),
      {FiniteDouble()},
      Number(),
      Number()};
  spec.optimizer = {Either(OptimizerType::kLAMB, OptimizerType::kMuon),
                    FiniteDouble(),
                    FiniteDouble(),
                    *rc::gen::arbitrary<bool>(),
                    FiniteDouble(),
                    FiniteDouble(),
                    FiniteDouble(),
                    FiniteDouble()};
  spec.schedule = {Either(ScheduleType::kWSD, ScheduleType::kInverseSquareRoot), Number(), Number(),
                   Either(DecayShape::kCosine, DecayShape::kSquareRoot), FiniteDouble()};
  spec.pipeline = {Number(),
                   Number(),
                   *rc::gen::arbitrary<bool>(),
                   Either(Residency::kOffload, Residency::kSwap),
                   {Number(), Number(), *rc::gen::element("", "/scratch")},
                   Number(),
                   Either(Recompute::kLayers, Recompute::kFull),
                   Either(ShardUpdate::kNone, ShardUpdate::kMoments),
                   AnyBoundary()};
  spec.checkpoint = {"s3://bucket/runs", Number(), Number()};
  spec.workers = {Number() | 1,       Number() | 1,           Number(),
                  {R"({"spec":{}})"}, {AnyPool(), AnyPool()}, {}};
  if (*rc::gen::arbitrary<bool>())
    spec.workers.machinePools = {{"friends", Number(), 0.25}, {"guests", {}}};
  spec.workers.traffic = {{{"eu", "*"}, FiniteDouble()}};
  spec.trainer.allowSpot = *rc::gen::arbitrary<bool>();
  spec.trainer.podTemplate.text = *rc::gen::element("", R"({"metadata":{}})");
  spec.preemption = {Number()};
  spec.failurePolicy = {Number(), Number()};
  if (*rc::gen::arbitrary<bool>()) spec.ttlSecondsAfterFinished = Number();
  if (*rc::gen::arbitrary<bool>()) spec.budget = Budget{FiniteDouble()};
  spec.managedBy = *rc::gen::element("", "kueue.x-k8s.io/multikueue");
  return job;
}

TEST(RoundtripTest, ReadingWhatWasWrittenGivesTheSameJob) {
  EXPECT_TRUE(rc::check("FromJson(ToJson(job)) == job", [] {
    const SwarmJob job = AnyJob();
    const Checked<SwarmJob> again = FromJsonText(ToJsonText(job));
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == job);
    RC_ASSERT(ToJsonText(*again) == ToJsonText(job));
  }));
}

/// `value`, or one that was read from a manifest without it.
template <typename T>
void MaybeUnset(T& value) {
  if (*rc::gen::arbitrary<bool>()) value = T();
}

SwarmJob AnyJobWithDefaults() {
  SwarmJob job = AnyJob();
  Spec& spec = job.spec;
  MaybeUnset(spec.data.cacheBytes);
  MaybeUnset(spec.model.lora);
  MaybeUnset(spec.model.config);
  MaybeUnset(spec.training.local);
  MaybeUnset(spec.training.local.overlap);
  MaybeUnset(spec.training.accumulation);
  MaybeUnset(spec.training.audit);
  MaybeUnset(spec.optimizer);
  MaybeUnset(spec.schedule);
  MaybeUnset(spec.pipeline.memory);
  MaybeUnset(spec.pipeline.boundary);
  MaybeUnset(spec.pipeline.boundary.layers);
  MaybeUnset(spec.workers.pools[0]);
  if (*rc::gen::arbitrary<bool>()) spec.workers.pools = Workers().pools;
  MaybeUnset(spec.trainer);
  MaybeUnset(spec.failurePolicy);
  return job;
}

TEST(RoundtripTest, AJobThatLeavesDefaultsToItsReaderIsTheSameJob) {
  EXPECT_TRUE(rc::check("FromJson(ToJson(job, kLeftOut)) == job", [] {
    const SwarmJob job = AnyJobWithDefaults();
    const Checked<SwarmJob> again = FromJsonText(ToJsonText(job, Defaults::kLeftOut));
    RC_ASSERT(again.ok());
    RC_ASSERT(*again == job);
  }));
}

TEST(RoundtripTest, ADamagedManifestIsReadOrRefusedWithErrors) {
  EXPECT_TRUE(rc::check("any edit of a manifest is answered", [] {
    std::string text(kGoodManifest);
    const int edits = *rc::gen::inRange(1, 6);
    for (int i = 0; i < edits; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
      const auto piece = *rc::gen::element<std::string>(
          "", ":", "- ", "[", "}", "\n", "\t", "&a ", "*a", "!!", "\"", "|", "\xff", "#", "? ", "%",
          "---\n", "-1", ".nan", std::string(1, '\0'));
      text.replace(at, *rc::gen::inRange<std::size_t>(0, 4), piece);
    }
    const Checked<SwarmJob> job = ParseYaml(text);
    RC_ASSERT(job.ok() != !job.errors().empty());
    if (job.ok()) RC_ASSERT(*FromJsonText(ToJsonText(*job)) == *job);
  }));
}

}  // namespace
}  // namespace swarm::api
