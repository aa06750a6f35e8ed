#include "api/model/stage_graph.h"

#include <algorithm>

#include "api/model/memory.h"

namespace swarm::api {

StageGraph GraphOf(const Spec& spec, std::uint64_t layers, bool head) {
  const DecoderConfig& config = spec.model.config;
  const Recompute recompute = spec.pipeline.recompute;
  const std::uint64_t tokens = spec.training.microbatchSize * spec.training.sequenceLength;
  return {.kept = GraphBytes(config, recompute, layers, tokens, head),
          .backward = BackwardBytes(config, recompute, layers, tokens),
          .boundary = sizeof(float) * tokens * static_cast<std::uint64_t>(config.hidden_size)};
}

std::uint64_t LeastGraphBytes(const StageGraph& graph) { return 2 * graph.kept + graph.backward; }

std::uint64_t NeededBudget(const StageGraph& graph) {
  // A boundary's input, gradient and what is retained of both are beside the graphs.
  return std::max(2 * LeastGraphBytes(graph), 32 * graph.boundary);
}

std::uint64_t InFlightRoom(const StageGraph& graph, std::uint64_t bytes) {
  const std::uint64_t room = (std::max(bytes, graph.backward) - graph.backward) / graph.kept;
  return std::max<std::uint64_t>(room, 2) - 1;  // a repair may take one more
}

}  // namespace swarm::api
