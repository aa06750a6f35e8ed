#include "planner/swapping.h"

#include <algorithm>
#include <cmath>

#include "api/model/memory.h"
#include "api/model/stage_graph.h"
#include "worker/model/segments/plan.h"

namespace swarm::planner {
namespace {

/// Of a parameter: a weight, a gradient, an exact sum, two moments.
constexpr double kWeight = 4, kGradient = 4, kExactSum = 8, kMoments = 8;
/// Where the fleet does not say how much memory a machine has: more than any stage needs, and small
/// enough to be multiplied.
constexpr std::uint64_t kEnough = std::uint64_t{1} << 50;

/// What a worker takes for segments (worker/stage/load.cc).
std::uint64_t MemoryFor(const api::Spec& spec, const Machines& group) {
  if (spec.pipeline.memory.host > 0) return spec.pipeline.memory.host;
  if (group.memory_bytes <= 0) return kEnough;
  return static_cast<std::uint64_t>(std::min(group.memory_bytes / 2, static_cast<double>(kEnough)));
}

/// Of a piece of a state (checkpoint::kPieceBytes).
constexpr double kPieceBytes = 4 << 20;

/// Of a state, what lies in pieces of several tensors that change: about a piece of each matrix of
/// a layer, or of each that has an adapter. A layer has seven.
double SharedPart(const api::Spec& spec, const ModelCosts& model) {
  const double layer = static_cast<double>(model.layer().all()) * kWeight;
  const api::Lora& lora = spec.model.lora;
  const double pieces = lora.rank > 0 ? static_cast<double>(lora.targets.size()) : 7;
  return std::min(1.0, pieces * kPieceBytes / layer);
}

/// In the memory of a segment.
std::uint64_t SizeOf(const Parameters& parameters) {
  return parameters.trained + api::FrozenAsTrained(parameters.frozen);
}

double SumBytes(const Swapping& swapping) { return swapping.exact ? kExactSum : kGradient; }

/// Whether a machine has memory for so many mapped bytes beside the segments.
bool IsCached(const Swapping& swapping, double bytes, const Machines& group) {
  const double free = group.memory_bytes - static_cast<double>(swapping.memory);
  return group.memory_bytes <= 0 || bytes <= free;
}

}  // namespace

std::optional<Swapping> SwapStage(const api::Spec& spec, const ModelCosts& model,
                                  const Machines& group, Run run) {
  if (group.device_bytes > 0 || group.disk <= 0) return std::nullopt;
  const bool embedding = run.first == 0, head = run.first + run.count == model.layers();
  const std::uint64_t table = SizeOf(model.table());
  const model::StageSizes sizes{
      .embedding = embedding ? table : 0,
      .layers = std::vector<std::uint64_t>(run.count, SizeOf(model.layer())),
      .head = head ? table : 0};
  const std::uint64_t memory = MemoryFor(spec, group);
  const std::uint64_t each = model::SegmentBytes(spec.training.precision);
  const std::uint64_t input = api::GraphOf(spec, 0, /*head=*/false).boundary;
  const auto plan = model::CutIntoSegments(
      {static_cast<std::int64_t>(run.first), static_cast<std::int64_t>(run.count), embedding, head},
      sizes,
      {.memory = memory,
       .parameter_bytes = each,
       .task_bytes = input,
       .tasks = api::TasksTogether(spec),
       .pass_bytes = model::PassBytes(spec.training.accumulation, spec.model.lora.rank > 0)});
  if (!plan.ok()) return std::nullopt;
  Swapping swapping{.parameters = model.ParametersOf(run),
                    .memory = std::min(memory, api::LeastSwapMemory(plan->largest, each)),
                    .tasks = plan->tasks,
                    .exact = spec.training.accumulation == api::Accumulation::kExact,
                    .layers = 1,
                    .shared = SharedPart(spec, model),
                    .versions = api::VersionsOf(spec),
                    .head = head};
  if (plan->inputs_in_tier) {
    swapping.inputs = static_cast<double>(input * (plan->segments.size() - 1));
  }
  for (const model::Slice& segment : plan->segments) {
    swapping.layers = std::max(swapping.layers, static_cast<std::uint64_t>(segment.count));
  }
  return swapping;
}

double SwappedSeconds(const Swapping& swapping, double seconds, double forward_share,
                      double microbatches, double disk) {
  const auto tasks = static_cast<double>(swapping.tasks);
  const auto trained = static_cast<double>(swapping.parameters.trained);
  const auto all = static_cast<double>(swapping.parameters.all());
  const double summed = swapping.exact ? 1 : std::min(tasks, microbatches);
  const double weights = all * kWeight / std::min(tasks, microbatches) / disk;
  const double gradient = trained * kGradient / summed / disk;
  // Floats of the first pass become the step's sum as they are.
  const double sums = swapping.exact ? microbatches : std::ceil(microbatches / tasks) - 1;
  const double added = sums * (kGradient + 2 * SumBytes(swapping)) * trained / disk;
  const double forth = model::kForwardMoves * swapping.inputs / disk;
  const double back = model::kBackwardMoves * swapping.inputs / disk;
  return std::max(seconds * forward_share, weights + forth) +
         std::max(seconds * (1 - forward_share), weights + gradient + back) + added / microbatches;
}

double SwappedUpdateSeconds(const Swapping& swapping, double disk) {
  const auto trained = static_cast<double>(swapping.parameters.trained);
  const auto frozen = static_cast<double>(swapping.parameters.frozen);
  const double state = static_cast<double>(swapping.versions) * kWeight + kMoments;
  const double read_again = swapping.shared * (trained * state + frozen * kWeight);
  return (2 * (kWeight + kMoments) * trained + read_again + 2 * SumBytes(swapping) * trained) /
         disk;
}

SwappedLocal SwappedLocalSeconds(const Swapping& swapping, const Machines& group) {
  const auto trained = static_cast<double>(swapping.parameters.trained);
  const double numbers = trained * kWeight;  // of the mapped ones, each
  // What an inner step moved, the round's sum; local and outer weights, velocity.
  const bool is_cached = IsCached(swapping, 5 * numbers, group);
  const double state = trained * (kWeight + kMoments);
  // The inner state comes and leaves, and its weights are read. The gradients come for their norm
  // and for the update; what moved is written, and added to the sum; local weights change.
  const double inner = 2 * state + 3 * numbers + (is_cached ? 0 : 6 * numbers);
  // The inner weights are written. The sum is read three times, outer weights and velocity change
  // and are read for their digest, and local weights are written and read.
  const double round = numbers + (is_cached ? 0 : 11 * numbers);
  return {inner / group.disk, round / group.disk};
}

}  // namespace swarm::planner
