#include "worker/model/layout/slice.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "api/model/boundary.h"

namespace swarm::model {
namespace {

/// The cost of the head in layers, by their numbers of weights: each is used once per token.
double HeadLayers(const api::DecoderConfig& config) {
  const std::int64_t query = config.num_attention_heads * config.head_dim;
  const std::int64_t key_value = config.num_key_value_heads * config.head_dim;
  const std::int64_t layer =
      config.hidden_size * (2 * query + 2 * key_value + 3 * config.intermediate_size);
  return static_cast<double>(config.vocab_size * config.hidden_size) / static_cast<double>(layer);
}

/// Layers of the last of several stages.
std::int64_t LastCount(const api::DecoderConfig& config, std::int64_t stages) {
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

/// The layers at which the slices begin, except for the first slice.
std::vector<std::int64_t> EvenCuts(const api::DecoderConfig& config, std::int64_t stages) {
  std::vector<std::int64_t> cuts;
  if (stages == 1) return cuts;
  const std::int64_t others = config.num_hidden_layers - LastCount(config, stages);
  const std::int64_t each = others / (stages - 1);
  const std::int64_t extra = others % (stages - 1);
  for (std::int64_t s = 1; s < stages; ++s) cuts.push_back(s * each + std::min(s, extra));
  return cuts;
}

/// The fewest of the `allowed` cuts with which no slice costs more than `limit`; none if there are
/// not enough.
std::optional<std::vector<std::int64_t>> CutsWithin(std::span<const std::uint64_t> allowed,
                                                    std::int64_t layers, double head,
                                                    double limit) {
  std::vector<std::int64_t> cuts;
  std::int64_t begin = 0;
  while (static_cast<double>(layers - begin) + head > limit) {
    std::int64_t furthest = begin;
    for (const std::uint64_t layer : allowed) {
      const auto cut = static_cast<std::int64_t>(layer);
      if (static_cast<double>(cut - begin) <= limit) furthest = std::max(furthest, cut);
    }
    if (furthest == begin) return std::nullopt;
    cuts.push_back(begin = furthest);
  }
  return cuts;
}

/// Requires stages - 1 <= allowed.size().
std::vector<std::int64_t> CutsAmong(const api::DecoderConfig& config, std::int64_t stages,
                                    std::span<const std::uint64_t> allowed) {
  const auto layers = config.num_hidden_layers;
  const double head = HeadLayers(config);
  std::vector<double> limits;
  for (std::int64_t count = 1; count <= layers; ++count) {
    limits.push_back(static_cast<double>(count));
    limits.push_back(static_cast<double>(count) + head);
  }
  std::ranges::sort(limits);
  std::vector<std::int64_t> cuts;
  for (const double limit : limits) {
    auto found = CutsWithin(allowed, layers, head, limit);
    if (!found || static_cast<std::int64_t>(found->size()) > stages - 1) continue;
    cuts = std::move(*found);
    break;
  }
  // Further cuts make no slice more expensive.
  for (const std::uint64_t layer : allowed) {
    if (static_cast<std::int64_t>(cuts.size()) == stages - 1) break;
    const auto cut = static_cast<std::int64_t>(layer);
    if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
  }
  std::ranges::sort(cuts);
  return cuts;
}

}  // namespace

Result<Slice> ComputeSlice(const api::DecoderConfig& config, std::uint64_t stage,
                           std::uint64_t stage_count, const api::Boundary& boundary) {
  const std::int64_t layers = config.num_hidden_layers;
  if (stage_count == 0 || stage >= stage_count || layers < 1 ||
      stage_count > static_cast<std::uint64_t>(layers)) {
    return InvalidArgument("stage " + std::to_string(stage) + " of " + std::to_string(stage_count) +
                           " of a model of " + std::to_string(layers) +
                           " layers: every stage needs a layer; use fewer stages");
  }
  const auto stages = static_cast<std::int64_t>(stage_count);
  const bool enough = boundary.layers && boundary.layers->size() + 1 >= stage_count;
  if (boundary.layers && !enough && api::IsPartOfModel(boundary)) {
    return InvalidArgument(std::to_string(stage_count) + " stages of a model that can be cut at " +
                           std::to_string(boundary.layers->size()) +
                           " boundaries only; use fewer stages");
  }
  std::vector<std::int64_t> ends =
      enough ? CutsAmong(config, stages, *boundary.layers) : EvenCuts(config, stages);
  ends.push_back(layers);
  const std::int64_t first = stage == 0 ? 0 : ends[stage - 1];
  return Slice{first, ends[stage] - first, stage == 0, stage + 1 == stage_count};
}

Result<std::vector<std::uint64_t>> ComputeBoundaryLayers(const api::DecoderConfig& config,
                                                         std::uint64_t stage_count,
                                                         const api::Boundary& boundary) {
  std::vector<std::uint64_t> layers;
  if (!boundary.layers) {
    for (std::uint64_t stage = 1; stage < stage_count; ++stage) {
      ASSIGN_OR_RETURN(const Slice slice, ComputeSlice(config, stage, stage_count));
      layers.push_back(static_cast<std::uint64_t>(slice.first));
    }
    return layers;
  }
  for (const std::uint64_t layer : *boundary.layers) {
    if (layer <= (layers.empty() ? 0 : layers.back()) ||
        layer >= static_cast<std::uint64_t>(config.num_hidden_layers)) {
      return InvalidArgument("a boundary before layer " + std::to_string(layer) +
                             ": layers ascend from 1 to the model's last");
    }
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace swarm::model
