#include "ctl/plan/auto_stages.h"

#include <nlohmann/json.hpp>

#include "api/manifest.h"
#include "base/gibibytes.h"
#include "ctl/local_model.h"
#include "ctl/plan/plan_report.h"
#include "planner/search.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

/// Workers of one machine are alike, and nothing between them is slow. So the choice depends on
/// their memory alone, and these are any rates.
constexpr double kFlops = 1e12, kDisk = 1e9;

planner::Request RequestFor(const api::SwarmJob& job, const StagesChoice& choice, bool swaps) {
  const auto workers = static_cast<double>(choice.workers);
  planner::Fleet fleet;
  fleet.groups = {{.name = "worker",
                   .count = choice.workers,
                   .flops = kFlops,
                   .memory_bytes = choice.memory_bytes / workers,
                   .disk = swaps ? kDisk : 0}};
  const planner::Open open{.stages = true,
                           .codec = false,
                           .step_mode = false,
                           .microbatch = false,
                           .overlap = false,
                           .residency = swaps && !job.spec.pipeline.residency,
                           .layers = !job.spec.pipeline.boundary.layers,
                           .replicas = false};
  return {job, fleet, open, planner::Goal::kTokensPerSecond};
}

}  // namespace

api::Checked<json> ChooseStages(json manifest, const StagesChoice& choice, std::string* said) {
  manifest["spec"]["workers"]["replicas"] = choice.workers;
  auto job = api::ParseManifest(manifest);
  if (!job.ok()) return job.errors();
  if (auto errors = ReadKnownModel(&*job); !errors.empty()) return errors;
  planner::Request request = RequestFor(*job, choice, /*swaps=*/false);
  planner::Plans plans = planner::FindPlans(request);
  if (plans.plans.empty()) {
    request = RequestFor(*job, choice, /*swaps=*/true);
    plans = planner::FindPlans(request);
  }
  const std::string workers =
      std::to_string(choice.workers) + (choice.workers == 1 ? " worker of " : " workers of ") +
      GibibytesText(static_cast<std::uint64_t>(request.fleet.groups[0].memory_bytes));
  if (plans.plans.empty()) {
    std::string remedy;
    for (const std::string& change : plans.changes) {
      remedy += (remedy.empty() ? "" : "; or ") + change;
    }
    return api::FieldError{"spec.pipeline.stages",
                           "is Auto, and no number of stages has room in " + workers,
                           remedy.empty() ? "more memory" : remedy};
  }
  const planner::Plan& plan = plans.plans.front();
  json fragment = PlanFragment(plan, request.open);
  fragment["spec"].erase("training");
  manifest.merge_patch(fragment);
  const bool swapped = plan.way.spec.pipeline.residency == api::Residency::kSwap;
  *said = "stages: Auto is " + std::to_string(plan.way.spec.pipeline.stages) +
          (swapped ? ", swapped," : "") + " with " + workers;
  return manifest;
}

}  // namespace swarm::ctl
