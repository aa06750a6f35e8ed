#include "api/model/memory.h"

#include <algorithm>

#include "api/model/decoder_config.h"
#include "api/model/stage_graph.h"

namespace swarm::api {
namespace {

/// Microbatches that pass a segment together, if the job does not bound them: enough that a disk of
/// 1 GB/s is not what a few cores wait for, and their gradients, which wait on it, are no burden.
constexpr std::uint64_t kSwapTasks = 8;

std::uint64_t Of(std::int64_t n) { return static_cast<std::uint64_t>(n); }

/// What a layer keeps of a token, in numbers.
std::uint64_t NumbersOfLayer(const DecoderConfig& config) {
  const std::uint64_t queries = Of(config.num_attention_heads) * Of(config.head_dim);
  const std::uint64_t keys = Of(config.num_key_value_heads) * Of(config.head_dim);
  // Two norms, each with its input, the input by its length, and its output.
  std::uint64_t norms = 6 * Of(config.hidden_size);
  // Behind a branch also its input and the input by its length; its output is only added.
  if (config.post_norms) norms += 4 * Of(config.hidden_size);
  // Rotated queries and keys, values, the output and a number for each head. Heads that share keys
  // and values read the same ones.
  std::uint64_t attention = queries + 2 * keys + queries + Of(config.num_attention_heads);
  // Norms of heads keep the product of which the values are a part, and the heads by their length.
  if (config.head_norms) attention += 2 * (queries + keys) + Of(config.num_attention_heads);
  if (!config.layers.empty()) attention += queries;  // outputs within a window are joined
  return norms + attention + 4 * Of(config.intermediate_size);
}

/// Of a trained parameter: its versions, two moments, and a microbatch's fresh gradient, which has
/// the type of the computation, or float32 where that is binary16.
std::uint64_t NumbersBytes(const Spec& spec) {
  // A replica that loads a checkpoint has all moments until the first commit leaves it its parts;
  // and it keeps copies of their new weights, in two buffers.
  const std::uint64_t copies = spec.pipeline.shardUpdate == ShardUpdate::kMoments ? 2 * 4 : 0;
  // Local: the outer weights of each version, their velocity, the weights after the last inner
  // step, and what waits for the turn of its fragment.
  const LocalSteps& local = spec.training.local;
  const std::uint64_t flats = (local.overlap ? 4 : 3) + (local.fragments > 1 ? 1 : 0);
  const std::uint64_t outer = spec.training.stepMode == StepMode::kLocal ? flats * 4 : 0;
  return VersionsOf(spec) * OperandBytes(spec) + 2 * 4 + FreshBytes(spec) + copies + outer;
}

/// Of a stage with its share of the layers, rounded up, and the head.
StageGraph LargestGraph(const Spec& spec) {
  const std::uint64_t stages = spec.pipeline.stages;
  const std::uint64_t layers = (Of(spec.model.config.num_hidden_layers) + stages - 1) / stages;
  return GraphOf(spec, layers, /*head=*/true);
}

}  // namespace

std::uint64_t AdapterParameters(const DecoderConfig& config, const Lora& lora) {
  const std::uint64_t width = Of(config.hidden_size), inner = Of(config.intermediate_size);
  const std::uint64_t queries = Of(config.num_attention_heads) * Of(config.head_dim);
  const std::uint64_t keys = Of(config.num_key_value_heads) * Of(config.head_dim);
  std::uint64_t sides = 0;
  for (const std::string& target : lora.targets) {
    const bool query = target == "q_proj" || target == "o_proj";
    const bool key = target == "k_proj" || target == "v_proj";
    sides += width + (query ? queries : key ? keys : inner);
  }
  return lora.rank * sides;
}

std::uint64_t VersionsOf(const Spec& spec) {
  return spec.training.stepMode == StepMode::kDelayed ? 2 : 1;
}

std::uint64_t OperandBytes(const Spec& spec) {
  return spec.training.precision == Precision::kFP32 ? 4 : 4 + 2;
}

std::uint64_t FreshBytes(const Spec& spec) {
  return spec.training.precision == Precision::kBF16 ? 2 : 4;
}

std::uint64_t ElementBytes(const Spec& spec) {
  return spec.training.accumulation == Accumulation::kExact ? 8 : 4;
}

std::uint64_t GraphBytes(const DecoderConfig& config, Recompute recompute, std::uint64_t layers,
                         std::uint64_t tokens, bool head) {
  const std::uint64_t width = Of(config.hidden_size);
  std::uint64_t numbers = 0;  // of a token
  switch (recompute) {
    case Recompute::kNone:
      numbers = layers * NumbersOfLayer(config);
      break;
    case Recompute::kLayers:
      numbers = layers * width;
      break;
    case Recompute::kFull:
      numbers = width;
      break;
  }
  if (!head) return sizeof(float) * tokens * numbers;
  // The norm keeps its input, and the input by its length; the loss, the gradient of its output.
  return sizeof(float) * (tokens * (numbers + 3 * width) + Of(config.vocab_size) * width);
}

std::uint64_t BackwardBytes(const DecoderConfig& config, Recompute recompute, std::uint64_t layers,
                            std::uint64_t tokens) {
  // In a gated MLP, where the gradient of its inner product is one more than the graph lets go.
  std::uint64_t numbers = Of(config.intermediate_size) + 3 * Of(config.hidden_size);
  if (recompute == Recompute::kLayers) numbers += NumbersOfLayer(config);
  if (recompute == Recompute::kFull) numbers += layers * NumbersOfLayer(config);
  return sizeof(float) * tokens * numbers;
}

std::uint64_t StateBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen) {
  // Two steps may be open, and the pool of sums keeps two buffers.
  return trained * (NumbersBytes(spec) + 4 * ElementBytes(spec)) + frozen * OperandBytes(spec);
}

std::uint64_t ServingBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen,
                           bool alone) {
  // The open steps' accumulators and two kept sums; in a group also the sum being made, and the
  // contribution to it.
  const std::uint64_t open = VersionsOf(spec);
  const std::uint64_t sums = open + 2 + (alone ? 0 : 2);
  return trained * (NumbersBytes(spec) + sums * ElementBytes(spec)) + frozen * OperandBytes(spec);
}

std::uint64_t CopyBytes(const Spec& spec, std::uint64_t trained, std::uint64_t frozen) {
  return trained * 4 * (VersionsOf(spec) + 2) + frozen * 4;
}

std::uint64_t BoundaryBytes(const SwarmJob& job) {
  return GraphOf(job.spec, 0, /*head=*/false).boundary;
}

std::uint64_t LeastGraphBytes(const SwarmJob& job) {
  return LeastGraphBytes(LargestGraph(job.spec));
}

std::uint64_t NeededBudget(const SwarmJob& job) { return NeededBudget(LargestGraph(job.spec)); }

std::uint64_t InFlightMax(const Spec& spec) {
  const std::uint64_t wanted = spec.pipeline.inFlightMax;
  const std::uint64_t budget = spec.workers.memoryBudgetBytes;
  if (budget == 0) return wanted;
  const std::uint64_t most = InFlightRoom(LargestGraph(spec), GraphShare(budget));
  return wanted == 0 ? most : std::min(wanted, most);
}

std::uint64_t TasksTogether(const Spec& spec) {
  if (spec.pipeline.residency != Residency::kSwap) return 0;
  const std::uint64_t most = InFlightMax(spec);
  const Training& training = spec.training;
  const bool local = training.stepMode == StepMode::kLocal;
  const std::uint64_t microbatches =
      local ? training.local.microbatches : training.globalBatchSize / training.microbatchSize;
  return std::min(microbatches, most > 0 ? most : kSwapTasks);
}

std::uint64_t SwapDiskBytes(const Spec& spec, std::uint64_t trained) {
  const bool exact = spec.training.accumulation == Accumulation::kExact;
  const std::uint64_t passing = exact ? TasksTogether(spec) : 1;
  const std::uint64_t versions = VersionsOf(spec);  // and open steps, each with a sum
  std::uint64_t each = versions * (4 + ElementBytes(spec)) + 2 * 4 + 4 * passing;
  if (spec.training.stepMode == StepMode::kLocal) {
    each += 5 * 4 + (spec.training.local.overlap ? 8 : 0);
    if (spec.training.local.fragments > 1) each += 4;
  }
  return trained * each;
}

std::uint64_t SwapInputBytes(const Spec& spec) {
  // Of layers, head and what is computed at the moment, and a gradient.
  const std::uint64_t segments = spec.model.config.num_hidden_layers + 3;
  return TasksTogether(spec) * segments * GraphOf(spec, 0, /*head=*/false).boundary;
}

std::uint64_t LeastSwapMemory(std::uint64_t largest, std::uint64_t parameter_bytes) {
  return 4 * ((2 * largest * parameter_bytes + 2) / 3);
}

std::uint64_t FrozenAsTrained(std::uint64_t frozen) { return (frozen + 1) / 2; }

std::uint64_t LeastSwapMemory(const SwarmJob& job) {
  const DecoderConfig& config = job.spec.model.config;
  const std::uint64_t width = Of(config.hidden_size);
  const std::uint64_t table = Of(config.vocab_size) * width;
  const std::uint64_t tables = (config.tie_word_embeddings ? 1 : 2) * table;
  const std::uint64_t layers = ParameterCount(config) - tables - width;
  const std::uint64_t head = table + width;  // with its norm
  const std::uint64_t layer = layers / Of(config.num_hidden_layers);
  const Lora& lora = job.spec.model.lora;
  const std::uint64_t largest =
      lora.rank == 0 ? std::max(layer, head)
                     : std::max(FrozenAsTrained(layer) + AdapterParameters(config, lora),
                                FrozenAsTrained(head));
  return LeastSwapMemory(largest, OperandBytes(job.spec) + 2 * 4);
}

}  // namespace swarm::api
