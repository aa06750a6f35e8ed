#include "ctl/validate_command.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "api/layout.h"
#include "api/parse.h"
#include "api/validate.h"
#include "ctl/manifest_file.h"

namespace swarm::ctl {
namespace {

nlohmann::json ToJson(const std::vector<api::FieldError>& errors) {
  nlohmann::json list = nlohmann::json::array();
  for (const api::FieldError& error : errors) {
    list.push_back({{"path", error.path}, {"problem", error.problem}, {"remedy", error.remedy}});
  }
  return {{"errors", list}};
}

}  // namespace

ExitCode RunValidate(const ValidateOptions& options, std::ostream& out, std::ostream& err) {
  api::Checked<api::SwarmJob> job = LoadManifest(options.manifest, options.overrides);
  if (job.ok() && options.cluster) {
    std::vector<api::FieldError> errors = api::ValidateForCluster(*job);
    if (!errors.empty()) job = std::move(errors);
  }
  if (!job.ok()) {
    if (options.json) {
      using Handler = nlohmann::json::error_handler_t;
      out << ToJson(job.errors()).dump(2, ' ', false, Handler::replace) << "\n";
    } else {
      err << api::ToString(job.errors()) << "\n";
    }
    return ExitCode::kBadUsage;
  }
  if (options.json) {
    out << api::ToJsonText(*job);
    return ExitCode::kOk;
  }
  const auto layout = api::ComputeReplicas(*job, "");
  out << job->name << " is valid: " << job->spec.training.maxSteps << " steps of "
      << job->microbatches() << " microbatches, " << job->spec.pipeline.stages << " stages";
  if (layout.ok()) out << ", replicas " << api::LayoutText(*layout);
  out << "\n";
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
