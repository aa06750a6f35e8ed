#include "api/model/layout.h"

#include <charconv>
#include <optional>

namespace swarm::api {
namespace {

constexpr std::uint64_t kWorkersMax = 100'000;

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Status Malformed(std::string_view workers) {
  return InvalidArgument("workers \"" + std::string(workers) +
                         "\": write a total (5), or replicas of stages (0=2,1=3)");
}

Result<std::vector<std::uint64_t>> Spread(std::uint64_t total, std::uint64_t stages) {
  if (total < stages || total > kWorkersMax) {
    return InvalidArgument(std::to_string(total) + " workers for " + std::to_string(stages) +
                           " stages: give at least one per stage, at most " +
                           std::to_string(kWorkersMax));
  }
  std::vector<std::uint64_t> layout(stages, total / stages);
  for (std::uint64_t stage = 0; stage < total % stages; ++stage) ++layout[stage];
  return layout;
}

Result<std::vector<std::uint64_t>> ParseReplicas(std::string_view workers,
                                                 const Pipeline& pipeline) {
  std::vector<std::uint64_t> layout(pipeline.stages, 0);
  for (std::string_view rest = workers; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return Malformed(workers);
    const auto stage = ParseNumber(part.substr(0, equals));
    const auto replicas = ParseNumber(part.substr(equals + 1));
    if (!stage || !replicas) return Malformed(workers);
    if (*stage >= pipeline.stages) {
      return InvalidArgument("workers \"" + std::string(workers) +
                             "\": the job has the stages 0 to " +
                             std::to_string(pipeline.stages - 1));
    }
    if (*replicas == 0 || *replicas > kWorkersMax || layout[*stage] != 0) {
      return InvalidArgument("workers \"" + std::string(workers) + "\": give stage " +
                             std::to_string(*stage) + " once, with 1 to " +
                             std::to_string(kWorkersMax) + " replicas");
    }
    layout[*stage] = *replicas;
  }
  for (std::uint64_t& replicas : layout) {
    if (replicas == 0) replicas = pipeline.minReplicasPerStage;
  }
  return layout;
}

}  // namespace

Result<std::vector<std::uint64_t>> ComputeReplicas(const SwarmJob& job, std::string_view workers) {
  const Pipeline& pipeline = job.spec.pipeline;
  if (workers.empty()) return Spread(job.spec.workers.replicas, pipeline.stages);
  if (workers.find('=') != std::string_view::npos) return ParseReplicas(workers, pipeline);
  const auto total = ParseNumber(workers);
  if (!total) return Malformed(workers);
  return Spread(*total, pipeline.stages);
}

std::string LayoutText(const std::vector<std::uint64_t>& layout) {
  std::string text;
  for (const std::uint64_t replicas : layout) {
    if (!text.empty()) text += ',';
    text += std::to_string(replicas);
  }
  return text;
}

}  // namespace swarm::api
