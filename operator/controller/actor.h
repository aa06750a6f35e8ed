// Carries out what was decided about a job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/figures.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/job_secrets.h"
#include "operator/controller/trainer_links.h"
#include "operator/kube/client/client.h"
#include "operator/objects/build.h"
#include "operator/plan/plan.h"

namespace swarm::controller {

/// The job that is acted for.
struct Acting {
  const objects::JobView& view;  ///< with the status that was decided
  const std::vector<plan::ObservedPod>& pods;
  std::uint64_t leader_term = 0;
  WallTime now;
  JobMemory* memory;

  kube::ObjectName name() const { return {view.ns, view.name}; }
};

/// Thread-safe; of one job only one call runs at a time. All it does is idempotent.
class Actor {
 public:
  /// All must outlive this.
  Actor(kube::Client& client, TrainerLinks& links, JobSecrets& secrets, Figures& figures,
        objects::PodOptions pod_options)
      : client_(client),
        links_(links),
        secrets_(secrets),
        figures_(figures),
        pod_options_(std::move(pod_options)) {}

  /// In the order of `actions`; one that fails does not keep the next ones from being done. What
  /// the server refuses for a reason that lasts is remembered for the next decision and is no
  /// error. Returns the first error that another try may mend.
  Status Do(const Acting& acting, const std::vector<plan::Action>& actions);

  /// Sees to the job's certificates; costs nothing while they are good.
  Result<HeldIdentities> EnsureIdentities(const Acting& acting);

  /// Asks the server whether it would take the pods of this job. What it says against them, one
  /// sentence each; errors are those that another try may mend.
  Result<std::vector<std::string>> Judge(const objects::JobView& view);

  /// The children that are as they should be, as far as is remembered.
  std::set<plan::Child> GoodChildren(const Acting& acting) const;

 private:
  struct Creating {
    bool refused = false;  // one creation was: the others would be, too
  };
  Status Apply(const Acting& acting, plan::Child child);
  Status ApplyObject(const Acting& acting, const kube::Resource& resource,
                     const nlohmann::json& object);
  Status Create(const Acting& acting, const plan::Creation& attempt,
                const Result<nlohmann::json>& pod, Creating* creating);
  Status CreateWorker(const Acting& acting, const plan::CreateWorker& action, Creating* creating);
  Status Delete(const Acting& acting, const plan::DeletePod& action);
  void Direct(const Acting& acting, const plan::DirectTrainer& action);

  kube::Client& client_;
  TrainerLinks& links_;
  JobSecrets& secrets_;
  Figures& figures_;
  const objects::PodOptions pod_options_;
};

}  // namespace swarm::controller
