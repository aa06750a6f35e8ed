#include "ctl/plan/plan_command.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "api/manifest.h"
#include "base/files.h"
#include "ctl/local_model.h"
#include "ctl/manifest_file.h"
#include "ctl/plan/link_rates.h"
#include "ctl/plan/links_plot.h"
#include "ctl/plan/plan_report.h"
#include "ctl/simulate/fleet_file.h"
#include "planner/choice.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

planner::Fleet MachinesOf(const Fleet& described) {
  planner::Fleet fleet{.links = described.links,
                       .trainer_region = described.trainer_region,
                       .detect_seconds = described.detect_seconds};
  for (const FleetGroup& group : described.groups) fleet.groups.push_back(group.machines);
  return fleet;
}

ExitCode StudyLinkRates(const PlanOptions& options, const planner::Request& request,
                        std::ostream& out, std::ostream& err) {
  const auto rates = ParseLinkRates(options.link_rates);
  if (!rates.ok()) {
    err << rates.status().message() << "\n";
    return ExitCode::kBadUsage;
  }
  const planner::LinkStudy study = planner::StudyLinks(request, *rates);
  if (options.json) {
    out << LinksJson(study, *rates, request).dump(2) << "\n";
  } else if (!study.curves.empty()) {
    PrintLinks(study, *rates, out);
  }
  if (study.curves.empty()) {
    err << "the job fits on no machines of " << options.fleet << "\n";
    for (const planner::LeftOut& left : study.left_out) {
      err << "  " << MannerText(left.manner) << ": " << left.reason << "\n";
    }
    return ExitCode::kFailed;
  }
  if (options.plot.empty()) return ExitCode::kOk;
  const std::string plot = PlotLinks(study, *rates, request.job.name);
  if (const Status status = WriteFile(options.plot, plot); !status.ok()) {
    err << status.ToString() << "\n";
    return ExitCode::kFailed;
  }
  return ExitCode::kOk;
}

}  // namespace

ExitCode PlanJob(const PlanOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](const std::string& file, const std::vector<api::FieldError>& errors) {
    err << file << ":\n" << api::ToString(errors) << "\n";
    return ExitCode::kBadUsage;
  };
  auto manifest = ReadManifest(options.manifest, options.overrides);
  if (!manifest.ok()) return refuse(options.manifest, manifest.errors());
  api::TakeAutoStages(&*manifest);
  auto job = api::ParseManifest(*manifest);
  if (!job.ok()) return refuse(options.manifest, job.errors());
  if (auto errors = ReadKnownModel(&*job); !errors.empty()) return refuse(options.manifest, errors);
  const auto fleet = ReadMachines(options.fleet);
  if (!fleet.ok()) return refuse(options.fleet, fleet.errors());
  const planner::Request request{*job, MachinesOf(*fleet), planner::OpenIn(*manifest),
                                 options.goal};
  if (!options.link_rates.empty()) return StudyLinkRates(options, request, out, err);
  const planner::Plans plans = planner::FindPlans(request);
  if (options.json) {
    out << PlansJson(plans, request).dump(2) << "\n";
  } else if (!plans.plans.empty()) {
    PrintPlans(plans, request, out);
  }
  if (plans.plans.empty()) {
    err << "the job fits on no machines of " << options.fleet << "\n";
    for (const std::string& change : plans.changes) err << "  it would with " << change << "\n";
    return ExitCode::kFailed;
  }
  if (options.write.empty()) return ExitCode::kOk;
  json planned = *manifest;
  planned.merge_patch(PlanFragment(plans.plans.front(), request.open));
  if (const Status status = WriteFile(options.write, planned.dump(2) + "\n"); !status.ok()) {
    err << status.ToString() << "\n";
    return ExitCode::kFailed;
  }
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
