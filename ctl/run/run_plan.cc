#include "ctl/run/run_plan.h"

#include <numeric>

#include "api/layout.h"
#include "ctl/run/supervise.h"

namespace swarm::ctl {
namespace {

constexpr const char* kAnyPort = "127.0.0.1:0";

void AppendIdentity(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                    std::vector<std::string>* arguments) {
  arguments->insert(arguments->end(), {"--job-uid", plan.job_uid});
  if (!identity) {
    arguments->push_back("--plaintext");
    return;
  }
  arguments->insert(arguments->end(),
                    {"--tls-ca", identity->ca.string(), "--tls-cert",
                     identity->certificate.string(), "--tls-key", identity->key.string()});
}

void AppendMetrics(const RunPlan& plan, const std::string& name,
                   std::vector<std::string>* arguments) {
  arguments->insert(arguments->end(), {"--metrics-listen", kAnyPort, "--metrics-address-file",
                                       (plan.metrics_directory() / name).string()});
}

void AppendChaos(const RunPlan& plan, std::vector<std::string>* arguments) {
  if (!plan.follow_chaos) return;
  arguments->insert(arguments->end(), {"--chaos-file", plan.chaos_rules_file().string()});
}

}  // namespace

std::uint64_t RunPlan::workers() const {
  return std::accumulate(layout.begin(), layout.end(), std::uint64_t{0});
}

WorkerSpec TrainerSpec(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                       std::uint64_t term, const std::string& listen) {
  WorkerSpec spec{std::string(kTrainerName), Role::kTrainer, {}};
  spec.arguments = {"--role=trainer",
                    "--job",
                    plan.job_file().string(),
                    "--out",
                    plan.out.string(),
                    "--listen",
                    listen.empty() ? kAnyPort : listen,
                    "--address-file",
                    plan.address_file().string(),
                    "--layout",
                    api::LayoutText(plan.layout),
                    "--term",
                    std::to_string(term)};
  AppendIdentity(plan, identity, &spec.arguments);
  AppendMetrics(plan, spec.name, &spec.arguments);
  AppendChaos(plan, &spec.arguments);
  if (plan.resume) spec.arguments.push_back("--resume");
  if (plan.trace_progress) spec.arguments.push_back("--trace-progress");
  if (!plan.moves) spec.arguments.insert(spec.arguments.end(), {"--balance", "None"});
  return spec;
}

WorkerSpec StageSpec(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                     const std::string& id, const std::string& trainer_address) {
  WorkerSpec spec{id, Role::kStage, {}};
  spec.arguments = {"--role=stage", "--id",          id,
                    "--trainer",    trainer_address, "--listen",
                    kAnyPort,       "--threads",     std::to_string(plan.threads_per_worker)};
  AppendIdentity(plan, identity, &spec.arguments);
  AppendMetrics(plan, spec.name, &spec.arguments);
  AppendChaos(plan, &spec.arguments);
  return spec;
}

}  // namespace swarm::ctl
