#include "worker/model/slice.h"

#include <algorithm>
#include <string>

namespace swarm::model {
namespace {

/// Cost of the head in layers: their weights compared, as all are used once a token.
double HeadLayers(const api::LlamaConfig& config) {
  const std::int64_t query = config.num_attention_heads * config.head_dim;
  const std::int64_t key_value = config.num_key_value_heads * config.head_dim;
  const std::int64_t layer =
      config.hidden_size * (2 * query + 2 * key_value + 3 * config.intermediate_size);
  return static_cast<double>(config.vocab_size * config.hidden_size) / static_cast<double>(layer);
}

/// Layers of the last of several stages.
std::int64_t LastCount(const api::LlamaConfig& config, std::int64_t stages) {
  const std::int64_t layers = config.num_hidden_layers;
  const double head = HeadLayers(config);
  std::int64_t best = 1;
  double best_cost = static_cast<double>(layers) + head + 1;
  for (std::int64_t last = 1; last <= layers - (stages - 1); ++last) {
    const std::int64_t largest_other = (layers - last + stages - 2) / (stages - 1);
    const double cost =
        std::max(static_cast<double>(largest_other), static_cast<double>(last) + head);
    if (cost <= best_cost) {
      best = last;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace

Result<Slice> ComputeSlice(const api::LlamaConfig& config, std::uint64_t stage,
                           std::uint64_t stage_count) {
  const std::int64_t layers = config.num_hidden_layers;
  if (stage_count == 0 || stage >= stage_count || layers < 1 ||
      stage_count > static_cast<std::uint64_t>(layers)) {
    return InvalidArgument("stage " + std::to_string(stage) + " of " + std::to_string(stage_count) +
                           " of a model of " + std::to_string(layers) +
                           " layers: every stage needs a layer; use fewer stages");
  }
  const auto stages = static_cast<std::int64_t>(stage_count);
  const auto index = static_cast<std::int64_t>(stage);
  if (stages == 1) return Slice{0, layers, true, true};
  const std::int64_t last = LastCount(config, stages);
  if (index == stages - 1) return Slice{layers - last, last, false, true};
  const std::int64_t each = (layers - last) / (stages - 1);
  const std::int64_t extra = (layers - last) % (stages - 1);
  return Slice{index * each + std::min(index, extra), each + (index < extra ? 1 : 0), index == 0,
               false};
}

}  // namespace swarm::model
