#include "planner/segment_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/model/memory.h"
#include "planner/places.h"
#include "planner/ranking.h"
#include "planner/swapping.h"
#include "worker/model/segments/plan.h"

namespace swarm::planner {
namespace {

/// Bytes for segments of each number of layers below that of the way; 0: what a worker takes.
std::set<std::uint64_t> MemoryChoices(const Way& way, const ModelCosts& model, const Fleet& fleet) {
  std::set<std::uint64_t> choices = {0};
  if (way.spec.pipeline.memory.device > 0) return {way.spec.pipeline.memory.device};
  const std::uint64_t each = model::SegmentBytes(way.spec.training.precision);
  const auto size = [](const Parameters& parameters) {
    return parameters.trained + api::FrozenAsTrained(parameters.frozen);
  };
  EachPlace(way, [&](std::size_t s, std::size_t g) {
    const auto swapping = SwapStage(way.spec, model, fleet.groups[g], way.runs[s]);
    if (!swapping) return;
    const bool on_device = fleet.groups[g].device_bytes > 0;
    for (std::uint64_t layers = 1; layers < swapping->layers; layers += 1 + layers / 4) {
      const std::uint64_t largest = std::max(layers * size(model.layer()), size(model.table()));
      choices.insert(api::LeastSwapMemory(largest, each));
      // A third one leaves meanwhile.
      if (on_device) choices.insert(api::LeastSwapMemory(largest, each * 3 / 2));
    }
  });
  return choices;
}

/// Microbatches; 0: as many as a worker takes.
std::set<std::uint64_t> TogetherChoices(const Way& way) {
  if (way.spec.pipeline.inFlightMax > 0) return {way.spec.pipeline.inFlightMax};
  const api::Training& training = way.spec.training;
  std::uint64_t fewest = MachinesIn(way.machines.front());
  for (const auto& counts : way.machines) fewest = std::min(fewest, MachinesIn(counts));
  const std::uint64_t microbatches = training.globalBatchSize / training.microbatchSize;
  const std::uint64_t most = training.stepMode == api::StepMode::kLocal
                                 ? training.local.microbatches
                                 : (microbatches + fewest - 1) / fewest;
  std::set<std::uint64_t> choices = {0, most};
  for (std::uint64_t n = 1; n < most; n *= 2) choices.insert(n);
  return choices;
}

}  // namespace

Plan WithBestSegments(const Plan& plan, const ModelCosts& model, const Request& request) {
  Plan best = plan;
  double most = Worth(plan.prediction, request.goal) * (1 + kPlanTie);
  if (!request.open.segments) return best;
  for (const std::uint64_t memory : MemoryChoices(plan.way, model, request.fleet)) {
    for (const std::uint64_t together : TogetherChoices(plan.way)) {
      Way way = plan.way;
      way.spec.pipeline.memory.device = memory;
      way.spec.pipeline.inFlightMax = together;
      if (!HasRoom(way, model, request.fleet)) continue;
      Prediction prediction = Predict(way, model, request.fleet);
      const double worth = Worth(prediction, request.goal);
      if (worth <= most) continue;
      most = worth;
      best = {std::move(way), std::move(prediction)};
    }
  }
  return best;
}

}  // namespace swarm::planner
