#include "worker/model/numeric_class.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/version.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "api/format/enum_names.h"
#include "api/model/boundary.h"
#include "base/rng.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/model/attention.h"
#include "worker/model/determinism.h"
#include "worker/model/open_device.h"
#include "worker/protocol/numeric_class.h"

namespace swarm::model {
namespace {

constexpr std::uint64_t kStages = 2;
constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kSequences = 2;
constexpr std::uint32_t kTokens = 65;
constexpr std::size_t kDigitsShown = 16;  ///< of each digest

/// Wide enough for the blocked paths of matrix products, with sizes that are no multiples of
/// vectors, and grouped heads. It has everything that a family may switch on; the second layer
/// attends within a window.
api::DecoderConfig ProbeConfig() {
  return {.hidden_size = 200,
          .num_hidden_layers = 2,
          .num_attention_heads = 10,
          .num_key_value_heads = 5,
          .head_dim = 20,
          .intermediate_size = 500,
          .vocab_size = 300,
          .attention_input_bias = true,
          .head_norms = true,
          .layers = {{}, {.window = 40, .rotary = false}}};
}

/// A model that is probed: one precision, or one boundary.
struct Variant {
  std::string_view name;
  api::Precision precision = api::Precision::kFP32;
  api::Boundary boundary;
};

/// Coefficients cross in float32: rounding would hide differences.
std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const auto& [precision, name] : EnumNames<api::Precision>::kNames) {
    variants.push_back({name, precision, {}});
  }
  for (const auto& [codec, name] : EnumNames<api::BoundaryCodec>::kNames) {
    if (!api::IsLearned(codec)) continue;
    api::Boundary boundary{.codec = codec, .coefficients = api::NumberCodec::kNone};
    boundary.factor = 4;
    boundary.rank = 20;
    if (codec == api::BoundaryCodec::kSubspace) boundary.refreshSteps = 1;
    if (codec == api::BoundaryCodec::kAnchored) {
      boundary.tableRank = 30;
      boundary.anchorTokens = 3;
    }
    variants.push_back({name, api::Precision::kFP32, boundary});
  }
  return variants;
}

/// Digest of the boundaries both ways, and of the gradients, of one microbatch through all stages.
Result<Digest> Probe(const Variant& variant, int threads, const std::string& device) {
  StageOptions options{.config = ProbeConfig(),
                       .stage_count = kStages,
                       .microbatches = 1,
                       .precision = variant.precision,
                       .boundary = variant.boundary,
                       .seed = kSeed,
                       .threads = threads,
                       .device = device};
  std::vector<std::unique_ptr<Stage>> stages;
  for (options.stage = 0; options.stage < kStages; ++options.stage) {
    ASSIGN_OR_RETURN(auto stage, Stage::Create(options));
    stage->InitRandom(kSeed);
    stages.push_back(std::move(stage));
  }
  SetDeterminism(device, true);  // as in exact jobs, which alone compare classes
  Rng rng(kSeed);
  std::vector<std::int32_t> ids(std::size_t{kSequences} * kTokens);
  for (std::int32_t& id : ids) {
    id =
        static_cast<std::int32_t>(rng.Below(static_cast<std::uint64_t>(options.config.vocab_size)));
  }
  std::vector<Bytes> pieces;
  ForwardResult result;
  TaskKey key;
  for (std::uint64_t s = 0; s < kStages; ++s) {
    key.stage = protocol::StageIndex(s);
    ASSIGN_OR_RETURN(result, stages[s]->Forward(key, Version(0), {kSequences, kTokens, ids},
                                                result.boundary, /*keep_graph=*/true));
    pieces.push_back(result.boundary);
  }
  pieces.push_back(Bytes::Copy(&result.loss, sizeof result.loss));
  Bytes gradient;
  for (std::uint64_t s = kStages; s-- > 0;) {
    key.stage = protocol::StageIndex(s);
    ASSIGN_OR_RETURN(gradient, stages[s]->Backward(key, gradient));
    RETURN_IF_ERROR(stages[s]->Fold(key));
    pieces.push_back(gradient);
    for (std::size_t group = 0; group < stages[s]->groups().size(); ++group) {
      pieces.push_back(stages[s]->Accumulator(key.step, group).elements);
    }
  }
  return ComputeDigest(pieces);
}

/// The kernels that attend in the models of jobs.
Result<std::string> KernelsOf(const Variant& variant, const std::string& device) {
  std::string names;
  for (const std::int64_t width : {64, 128, 256}) {
    api::DecoderConfig config = ProbeConfig();
    config.head_dim = width;
    ASSIGN_OR_RETURN(const std::string of_width,
                     AttentionKernels(config, variant.precision, device));
    names += (names.empty() ? ":" : ",") + of_width;
  }
  return names;
}

/// The kind of device, and what libtorch chooses kernels by. Drivers have no part in that: the
/// libraries bring compiled code for the GPUs that they know.
Result<std::string> DescribeDevice(const std::string& name) {
  ASSIGN_OR_RETURN(const at::Device device, OpenDevice(name));
  if (!device.is_cuda()) return std::string("cpu");
  const Result<std::string> gpu = device::DescribeCudaDevice(device.index());
  if (!gpu.ok()) return gpu.status().WithContext("device " + name);
  const auto& hooks = at::detail::getCUDAHooks();
  return *gpu + (hooks.hasCuDNN() ? " cudnn=" + std::to_string(hooks.versionRuntimeCuDNN()) : "");
}

}  // namespace

Result<std::string> NumericClass(int threads, const std::string& device) {
  ASSIGN_OR_RETURN(const std::string kind, DescribeDevice(device));
  std::string text = "cpu=" + at::get_cpu_capability() + " libtorch=" TORCH_VERSION +
                     " device=" + kind + " threads=" + std::to_string(threads);
  for (const Variant& variant : Variants()) {
    const Result<Digest> digest = Probe(variant, threads, device);
    // An exact job that needs what the device cannot do ends with the reason; others can use it.
    const bool cannot = digest.status().code() == StatusCode::kFailedPrecondition;
    if (!digest.ok() && !cannot) return digest.status();
    text += " " + std::string(protocol::kProbe) + std::string(variant.name) + "=" +
            (cannot ? "none" : digest->Hex().substr(0, kDigitsShown));
    if (api::IsLearned(variant.boundary.codec)) continue;
    ASSIGN_OR_RETURN(const std::string kernels, KernelsOf(variant, device));
    text += kernels;
  }
  return text;
}

}  // namespace swarm::model
