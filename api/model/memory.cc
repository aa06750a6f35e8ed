#include "api/model/memory.h"

#include <algorithm>

namespace swarm::api {
namespace {

std::uint64_t StageGraphBytes(const SwarmJob& job) {
  const Spec& spec = job.spec;
  const auto layers = static_cast<std::uint64_t>(spec.model.config.num_hidden_layers);
  const std::uint64_t stages = spec.pipeline.stages;
  return GraphBytes(spec.model.config, (layers + stages - 1) / stages,
                    spec.training.microbatchSize * spec.training.sequenceLength, /*head=*/true);
}

}  // namespace

std::uint64_t GraphBytes(const DecoderConfig& config, std::uint64_t layers, std::uint64_t tokens,
                         bool head) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const std::uint64_t width = of(config.hidden_size);
  const std::uint64_t queries = of(config.num_attention_heads) * of(config.head_dim);
  const std::uint64_t keys = of(config.num_key_value_heads) * of(config.head_dim);
  // Two norms, each with its input, the input by its length, and its output.
  const std::uint64_t norms = 6 * width;
  // Rotated queries and keys, values, the output and a number for each head. Heads that share keys
  // and values read the same ones.
  std::uint64_t attention = queries + 2 * keys + queries + of(config.num_attention_heads);
  // Norms of heads keep the product of which the values are a part, and the heads by their length.
  if (config.head_norms) attention += 2 * (queries + keys) + of(config.num_attention_heads);
  if (!config.layers.empty()) attention += queries;  // outputs within a window are joined
  const std::uint64_t mlp = 4 * of(config.intermediate_size);
  const std::uint64_t loss = head ? 3 * width + of(config.vocab_size) : 0;
  return sizeof(float) * tokens * (layers * (norms + attention + mlp) + loss);
}

std::uint64_t BoundaryBytes(const SwarmJob& job) {
  const Training& training = job.spec.training;
  return sizeof(float) * training.microbatchSize * training.sequenceLength *
         static_cast<std::uint64_t>(job.spec.model.config.hidden_size);
}

std::uint64_t NeededBudget(const SwarmJob& job) {
  const std::uint64_t graphs = 2 * StageGraphBytes(job);
  // A boundary's input, gradient and what is retained of both are beside the graphs.
  return std::max(2 * graphs, 32 * BoundaryBytes(job));
}

std::uint64_t InFlightMax(const SwarmJob& job) {
  const std::uint64_t wanted = job.spec.pipeline.inFlightMax;
  const std::uint64_t budget = job.spec.workers.memoryBudgetBytes;
  if (budget == 0) return wanted;
  const std::uint64_t room = GraphShare(budget) / StageGraphBytes(job);
  const std::uint64_t most = std::max<std::uint64_t>(room, 2) - 1;  // a repair may take one more
  return wanted == 0 ? most : std::min(wanted, most);
}

}  // namespace swarm::api
