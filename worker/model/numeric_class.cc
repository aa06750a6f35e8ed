#include "worker/model/numeric_class.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/boundary.h"
#include "api/enum_names.h"
#include "base/rng.h"

namespace swarm::model {
namespace {

constexpr std::uint64_t kStages = 2;
constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kSequences = 2;
constexpr std::uint32_t kTokens = 65;

/// Wide enough for the blocked paths of matrix products, with sizes that are no multiples of
/// vectors, and grouped heads.
api::LlamaConfig ProbeConfig() {
  return {.hidden_size = 200,
          .num_hidden_layers = 2,
          .num_attention_heads = 10,
          .num_key_value_heads = 5,
          .head_dim = 20,
          .intermediate_size = 500,
          .vocab_size = 300};
}

/// The boundaries both ways and the gradients of one microbatch, by way of all stages.
Result<Digest> Probe(StageOptions options) {
  options.config = ProbeConfig();
  options.stage_count = kStages;
  options.microbatches = 1;
  options.step_mode = api::StepMode::kSync;
  // What a boundary may learn belongs to the job's model; how numbers are sent does not.
  const api::Boundary boundary = std::exchange(options.boundary, {});
  if (!api::IsLearned(boundary.codec)) options.boundary.codec = boundary.codec;
  options.boundary.gradientCodec = boundary.gradientCodec;
  options.boundary.blockSize = boundary.blockSize;
  std::vector<std::unique_ptr<Stage>> stages;
  for (options.stage = 0; options.stage < kStages; ++options.stage) {
    ASSIGN_OR_RETURN(auto stage, Stage::Create(options));
    stage->InitRandom(kSeed);
    stages.push_back(std::move(stage));
  }
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
    pieces.push_back(stages[s]->Accumulator(key.step, 0).elements);
  }
  return ComputeDigest(pieces);
}

}  // namespace

Result<std::string> NumericClass(const StageOptions& options) {
  ASSIGN_OR_RETURN(const Digest probe, Probe(options));
  return "cpu=" + at::get_cpu_capability() + " libtorch=" TORCH_VERSION +
         " device=" + options.device.substr(0, options.device.find(':')) +
         " threads=" + std::to_string(options.threads) +
         " precision=" + std::string(api::NameOf(options.precision)) +
         " codec=" + std::string(api::NameOf(options.boundary.codec)) + "/" +
         std::string(api::NameOf(api::BackwardNumbers(options.boundary))) + " probe=" + probe.Hex();
}

}  // namespace swarm::model
