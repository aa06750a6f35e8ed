#include "planner/model_costs.h"

#include <algorithm>

#include "api/model/boundary.h"
#include "api/model/decoder_config.h"
#include "api/model/memory.h"
#include "api/model/reduce.h"

namespace swarm::planner {
namespace {

/// Of a code of eight bits, with its part of the block's scale.
double Int8Bytes(std::uint64_t block) { return 1 + 4 / static_cast<double>(block); }

double NumberBytes(api::NumberCodec codec, std::uint64_t block) {
  switch (codec) {
    case api::NumberCodec::kNone:
      return 4;
    case api::NumberCodec::kBF16:
      return 2;
    case api::NumberCodec::kInt8:
    case api::NumberCodec::kInt8Dynamic:
      return Int8Bytes(block);
  }
  return 4;
}

}  // namespace

ModelCosts::ModelCosts(const api::Spec& spec) {
  const api::DecoderConfig& config = spec.model.config;
  const auto width = static_cast<std::uint64_t>(config.hidden_size);
  const std::uint64_t table = static_cast<std::uint64_t>(config.vocab_size) * width;
  tied_ = config.tie_word_embeddings;
  const auto count = static_cast<std::uint64_t>(config.num_hidden_layers);
  const std::uint64_t layer =
      (api::ParameterCount(config) - (tied_ ? 1 : 2) * table - width) / count;
  const bool adapters = spec.model.lora.rank > 0;
  const auto of_model = [&](std::uint64_t parameters) {
    return adapters ? Parameters{0, parameters} : Parameters{parameters, 0};
  };
  layer_ = of_model(layer);
  table_ = of_model(table);
  norm_ = of_model(width);
  if (adapters) layer_.trained = api::AdapterParameters(config, spec.model.lora);
  // A product costs two operations a weight; the backward makes one product for the gradient of its
  // input, and one for that of a weight which is trained. What is computed again costs one forward
  // more. Scores and their values, causal: half the sequence, and twice that in the backward.
  const bool swaps = spec.pipeline.residency == api::Residency::kSwap;
  // A segment that comes for the backward has its forward first; its layers once more, or it once.
  const bool again = spec.pipeline.recompute == api::Recompute::kLayers ||
                     (spec.pipeline.recompute == api::Recompute::kFull && !swaps);
  const std::uint64_t forwards = 1 + (swaps ? 1 : 0) + (again ? 1 : 0);
  const auto products = [](const Parameters& of, std::uint64_t forward_passes) {
    return 2 * static_cast<double>(forward_passes * of.all() + of.all() + of.trained);
  };
  const double sequence = static_cast<double>(spec.training.sequenceLength);
  const double queries = static_cast<double>(config.num_attention_heads * config.head_dim);
  prefix_.push_back(0);
  for (std::uint64_t layer = 0; layer < count; ++layer) {
    const auto window = api::LayerOf(config, static_cast<std::int64_t>(layer)).window;
    const double seen =
        window > 0 ? std::min(sequence / 2, static_cast<double>(window)) : sequence / 2;
    const double scores = 4 * seen * queries;
    const double work = products(layer_, forwards) + static_cast<double>(forwards + 2) * scores;
    prefix_.push_back(prefix_.back() + work);
    forward_share_ = (2 * static_cast<double>(layer_.all()) + scores) / work;
  }
  head_ = products(table_, swaps ? 2 : 1);
}

double ModelCosts::Flops(Run run) const {
  const std::uint64_t end = run.first + run.count;
  return prefix_[end] - prefix_[run.first] + (end == layers() ? head_ : 0);
}

Parameters ModelCosts::ParametersOf(Run run) const {
  Parameters sum;
  const auto add = [&](const Parameters& part, std::uint64_t times) {
    sum.trained += times * part.trained;
    sum.frozen += times * part.frozen;
  };
  const bool embedding = run.first == 0, head = run.first + run.count == layers();
  const std::uint64_t tables = (embedding ? 1 : 0) + (head ? 1 : 0);
  add(layer_, run.count);
  add(norm_, head ? 1 : 0);
  add(table_, tied_ ? std::min<std::uint64_t>(tables, 1) : tables);
  return sum;
}

BoundaryTraffic TrafficOf(const api::Boundary& boundary, std::uint64_t hidden_size,
                          std::uint64_t tokens) {
  const double numbers =
      static_cast<double>(tokens) * static_cast<double>(api::CoefficientsPerToken(
                                        boundary, static_cast<std::int64_t>(hidden_size)));
  return {numbers * NumberBytes(api::ForwardNumbers(boundary), boundary.blockSize),
          numbers * NumberBytes(api::BackwardNumbers(boundary), boundary.blockSize)};
}

namespace {

/// Of a parameter that the sum is of.
double SummedBytes(const api::Training& training) {
  if (training.accumulation == api::Accumulation::kExact) return 8;
  switch (training.reduceCodec) {
    case api::ReduceCodec::kNone:
      return 4;
    case api::ReduceCodec::kBF16:
      return 2;
    case api::ReduceCodec::kInt8:
      return Int8Bytes(api::kReduceBlock);
    case api::ReduceCodec::kInt4:
      return 0.5 + 4 / static_cast<double>(api::kNibbleBlock);
  }
  return 4;
}

}  // namespace

double ReduceBytes(const api::Training& training) {
  return SummedBytes(training) / static_cast<double>(training.local.fragments);
}

}  // namespace swarm::planner
