#include "ctl/run/run_plan.h"

#include <algorithm>
#include <numeric>

namespace swarm::ctl {
namespace {

WorkerFlags CommonFlags(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                        const std::string& name) {
  WorkerFlags flags{.listen = "127.0.0.1:0",
                    .metrics_listen = "127.0.0.1:0",
                    .metrics_address_file = (plan.metrics_directory() / name).string(),
                    .job_uid = plan.job_uid,
                    .plaintext = !identity.has_value(),
                    .log_level = plan.log_level};
  if (!plan.worker_listen.empty()) {
    flags.listen = plan.worker_listen;
    flags.revoked_file = plan.revoked_file().string();
  }
  if (plan.follow_chaos) flags.chaos_file = plan.chaos_rules_file().string();
  if (identity) {
    flags.tls_ca = identity->ca.string();
    flags.tls_cert = identity->certificate.string();
    flags.tls_key = identity->key.string();
  }
  return flags;
}

}  // namespace

std::uint64_t RunPlan::workers() const {
  return std::accumulate(layout.begin(), layout.end(), std::uint64_t{0});
}

std::uint64_t RunPlan::pods() const {
  const std::uint64_t size = std::max<std::uint64_t>(devices.size(), 1);
  return (workers_here() + size - 1) / size;
}

std::vector<std::string> RunPlan::DevicesOf(std::uint64_t pod) const {
  std::vector<std::string> all = devices;
  if (pod + 1 == pods() && workers_here() % std::max<std::size_t>(all.size(), 1) != 0) {
    all.resize(workers_here() % all.size());
  }
  return all;
}

WorkerFlags TrainerFlags(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                         std::uint64_t term, const std::string& listen) {
  WorkerFlags flags = CommonFlags(plan, identity, "trainer");
  flags.role = WorkerRole::kTrainer;
  if (!plan.trainer_listen.empty()) flags.listen = plan.trainer_listen;
  if (!listen.empty()) flags.listen = listen;
  flags.job = plan.job_file().string();
  flags.out = plan.out.string();
  flags.address_file = plan.address_file().string();
  flags.layout = plan.layout;
  flags.term = term;
  flags.resume = plan.resume;
  flags.trace_progress = plan.trace_progress;
  flags.page = plan.page;
  if (!plan.page.empty()) flags.page_address_file = plan.page_address_file().string();
  if (!plan.moves) flags.balance = protocol::BalancePolicy::kNone;
  return flags;
}

WorkerFlags StageFlags(const RunPlan& plan, const std::optional<IdentityFiles>& identity,
                       const std::string& id, const std::vector<std::string>& devices,
                       const std::string& trainer_address) {
  WorkerFlags flags = CommonFlags(plan, identity, id);
  flags.role = WorkerRole::kStage;
  flags.id = id;
  flags.trainer = trainer_address;
  if (plan.profile) flags.profile = (plan.profile_directory() / id).string();
  flags.threads = static_cast<int>(plan.threads_per_worker);
  flags.memory = plan.memory / std::max<std::uint64_t>(plan.workers_here(), 1);
  if (!plan.regions.empty()) {
    const std::uint64_t number = std::stoull(id.substr(id.rfind('-') + 1));
    flags.region = plan.regions[number % plan.regions.size()];
  }
  if (devices.size() == 1) flags.device = devices.front();
  if (devices.size() > 1) flags.devices = devices;
  return flags;
}

}  // namespace swarm::ctl
