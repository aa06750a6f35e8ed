#include "ctl/plan/auto_stages.h"

#include <nlohmann/json.hpp>

#include "api/manifest.h"
#include "ctl/local_model.h"
#include "planner/choice.h"

namespace swarm::ctl {

using nlohmann::json;

api::Checked<json> ChooseStages(json manifest, const StagesChoice& choice, std::string* said) {
  manifest["spec"]["workers"]["replicas"] = choice.workers;
  auto job = api::ParseManifest(manifest);
  if (!job.ok()) return job.errors();
  if (auto errors = ReadKnownModel(&*job); !errors.empty()) return errors;
  const planner::AlikeWorkers workers{choice.workers,
                                      choice.memory_bytes / static_cast<double>(choice.workers)};
  const auto chosen = planner::ChooseForMemory(*job, workers);
  if (!chosen.ok()) return chosen.errors();
  planner::FillIn(*chosen, &manifest);
  const bool swapped = chosen->residency || job->spec.pipeline.residency == api::Residency::kSwap;
  *said = "stages: Auto is " + std::to_string(chosen->stages) + (swapped ? ", swapped," : "") +
          " with " + planner::TextOf(workers);
  return manifest;
}

}  // namespace swarm::ctl
