#include "planner/model_costs.h"

#include <algorithm>

#include "api/model/boundary.h"
#include "api/model/decoder_config.h"
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
  width_ = static_cast<std::uint64_t>(config.hidden_size);
  table_parameters_ = static_cast<std::uint64_t>(config.vocab_size) * width_;
  tied_ = config.tie_word_embeddings;
  const std::uint64_t tables = tied_ ? 1 : 2;
  const auto count = static_cast<std::uint64_t>(config.num_hidden_layers);
  layer_parameters_ = (api::ParameterCount(config) - tables * table_parameters_ - width_) / count;
  // A product costs two operations a weight; the backward makes two products of each. What is
  // computed again costs one forward more. Scores and their values, causal: half the sequence.
  const bool swaps = spec.pipeline.residency == api::Residency::kSwap;
  const double passes = spec.pipeline.recompute == api::Recompute::kNone && !swaps ? 3 : 4;
  forward_share_ = 1 / passes;
  const double sequence = static_cast<double>(spec.training.sequenceLength);
  const double queries = static_cast<double>(config.num_attention_heads * config.head_dim);
  prefix_.push_back(0);
  for (std::uint64_t layer = 0; layer < count; ++layer) {
    const auto window = api::LayerOf(config, static_cast<std::int64_t>(layer)).window;
    const double seen =
        window > 0 ? std::min(sequence / 2, static_cast<double>(window)) : sequence / 2;
    const double forward = 2 * static_cast<double>(layer_parameters_) + 4 * seen * queries;
    prefix_.push_back(prefix_.back() + passes * forward);
  }
  head_ = (swaps ? 4 : 3) * 2 * static_cast<double>(table_parameters_);
}

double ModelCosts::Flops(Run run) const {
  const std::uint64_t end = run.first + run.count;
  return prefix_[end] - prefix_[run.first] + (end == layers() ? head_ : 0);
}

std::uint64_t ModelCosts::Parameters(Run run) const {
  std::uint64_t parameters = run.count * layer_parameters_;
  const bool embedding = run.first == 0, head = run.first + run.count == layers();
  if (head) parameters += width_;  // the final norm
  const std::uint64_t tables = (embedding ? 1 : 0) + (head ? 1 : 0);
  return parameters + (tied_ ? std::min<std::uint64_t>(tables, 1) : tables) * table_parameters_;
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
