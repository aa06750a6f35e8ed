#include "planner/choice.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/format/enum_names.h"
#include "base/gibibytes.h"

namespace swarm::planner {
namespace {

using nlohmann::json;

constexpr const char* kStages = "/spec/pipeline/stages";
constexpr const char* kLayers = "/spec/pipeline/boundary/layers";
constexpr const char* kCodec = "/spec/pipeline/boundary/codec";
constexpr const char* kResidency = "/spec/pipeline/residency";
constexpr const char* kDeviceMemory = "/spec/pipeline/memory/device";
constexpr const char* kInFlightMax = "/spec/pipeline/inFlightMax";
constexpr const char* kStepMode = "/spec/training/stepMode";
constexpr const char* kOverlap = "/spec/training/local/overlap";
constexpr const char* kMicrobatchSize = "/spec/training/microbatchSize";
constexpr const char* kReplicas = "/spec/workers/replicas";

bool IsOpen(const json& manifest, const char* path) {
  const json::json_pointer pointer(path);
  if (!manifest.contains(pointer) || manifest.at(pointer).is_null()) return true;
  return std::string_view(path) == kReplicas && manifest.at(pointer) == 0;
}

/// Where memory alone counts, these are any rates.
constexpr double kFlops = 1e12, kDisk = 1e9;

Request ForMemory(const api::SwarmJob& job, const AlikeWorkers& workers, bool swaps) {
  const api::Pipeline& pipeline = job.spec.pipeline;
  Request request{.job = job, .fleet = {}, .open = {}};
  request.job.spec.workers.replicas = workers.count;
  request.fleet.groups = {{.name = "worker",
                           .count = workers.count,
                           .flops = kFlops,
                           .memory_bytes = workers.memory_bytes,
                           .disk = swaps ? kDisk : 0}};
  request.open = {.stages = true,
                  .codec = false,
                  .step_mode = false,
                  .microbatch = false,
                  .overlap = false,
                  .residency = swaps && !pipeline.residency,
                  .layers = !pipeline.boundary.layers,
                  .segments = false,
                  .replicas = false};
  return request;
}

}  // namespace

Open OpenIn(const json& manifest) {
  return {.stages = IsOpen(manifest, kStages),
          .codec = IsOpen(manifest, kCodec),
          .step_mode = IsOpen(manifest, kStepMode),
          .microbatch = IsOpen(manifest, kMicrobatchSize),
          .overlap = IsOpen(manifest, kOverlap),
          .residency = IsOpen(manifest, kResidency),
          .layers = IsOpen(manifest, kLayers),
          .segments = IsOpen(manifest, kDeviceMemory),
          .replicas = IsOpen(manifest, kReplicas)};
}

api::PlanChoice ChoiceOf(const Plan& plan, const Open& open) {
  const api::Spec& spec = plan.way.spec;
  const Prediction& prediction = plan.prediction;
  api::PlanChoice choice{.stages = spec.pipeline.stages};
  if (plan.way.runs.size() > 1) {
    if (open.codec) choice.codec = spec.pipeline.boundary.codec;
    // Boundaries that the manifest names may be a part of the model: they stay.
    for (std::size_t s = 1; open.layers && s < plan.way.runs.size(); ++s) {
      if (!choice.layers) choice.layers.emplace();
      choice.layers->push_back(plan.way.runs[s].first);
    }
  }
  if (open.residency && spec.pipeline.residency == api::Residency::kSwap) {
    choice.residency = spec.pipeline.residency;
  }
  if (open.segments && spec.pipeline.memory.device > 0) {
    choice.deviceMemory = spec.pipeline.memory.device;
  }
  if (open.step_mode) choice.stepMode = spec.training.stepMode;
  if (open.overlap && spec.training.local.overlap) choice.overlap = true;
  if (open.microbatch) choice.microbatchSize = spec.training.microbatchSize;
  choice.inFlightMax = prediction.in_flight_max;
  if (open.replicas) {
    choice.replicas = 0;
    for (const StagePrediction& stage : prediction.stages) *choice.replicas += stage.machines;
  }
  choice.tokensPerSecond = prediction.tokens_per_second;
  choice.limitedBy = LimitText(prediction);
  if (prediction.tokens_per_dollar > 0) {
    choice.dollarsPerBillionTokens = 1e9 / prediction.tokens_per_dollar;
  }
  return choice;
}

void FillIn(const api::PlanChoice& choice, json* manifest) {
  const auto fill = [&](const char* path, const auto& value) {
    if (IsOpen(*manifest, path)) (*manifest)[json::json_pointer(path)] = value;
  };
  fill(kStages, choice.stages);
  if (choice.layers) fill(kLayers, *choice.layers);
  if (choice.codec) fill(kCodec, NameOf(*choice.codec));
  if (choice.residency) fill(kResidency, NameOf(*choice.residency));
  if (choice.deviceMemory) fill(kDeviceMemory, *choice.deviceMemory);
  if (choice.stepMode) fill(kStepMode, NameOf(*choice.stepMode));
  if (choice.overlap) fill(kOverlap, *choice.overlap);
  if (choice.microbatchSize) fill(kMicrobatchSize, *choice.microbatchSize);
  if (choice.replicas) fill(kReplicas, *choice.replicas);
  if (choice.inFlightMax) {
    const json::json_pointer pointer(kInFlightMax);
    const std::uint64_t said =
        IsOpen(*manifest, kInFlightMax) ? 0 : manifest->at(pointer).get<std::uint64_t>();
    (*manifest)[pointer] = said == 0 ? *choice.inFlightMax : std::min(said, *choice.inFlightMax);
  }
}

api::Checked<api::PlanChoice> Choose(const Request& request, const std::string& machines) {
  const Plans plans = FindPlans(request, 1);
  if (!plans.plans.empty()) return ChoiceOf(plans.plans.front(), request.open);
  std::string remedy;
  for (const std::string& change : plans.changes) {
    remedy += (remedy.empty() ? "" : "; or ") + change;
  }
  return api::FieldError{"spec.pipeline.stages",
                         "is Auto, and no number of stages has room in " + machines,
                         remedy.empty() ? "more memory" : remedy};
}

std::string TextOf(const AlikeWorkers& workers) {
  return std::to_string(workers.count) + (workers.count == 1 ? " worker of " : " workers of ") +
         GibibytesText(static_cast<std::uint64_t>(workers.memory_bytes));
}

api::Checked<api::PlanChoice> ChooseForMemory(const api::SwarmJob& job,
                                              const AlikeWorkers& workers) {
  const std::string text = TextOf(workers);
  auto choice = Choose(ForMemory(job, workers, /*swaps=*/false), text);
  if (!choice.ok()) choice = Choose(ForMemory(job, workers, /*swaps=*/true), text);
  if (!choice.ok()) return choice;
  (*choice).replicas = workers.count;
  (*choice).tokensPerSecond.reset();
  (*choice).limitedBy.clear();
  return choice;
}

}  // namespace swarm::planner
