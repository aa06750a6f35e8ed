// Carries out the actions of a plan.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/clusters.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/job_secrets.h"
#include "operator/controller/metrics.h"
#include "operator/controller/trainer_links.h"
#include "operator/kube/client/client.h"
#include "operator/objects/build.h"
#include "operator/plan/plan.h"

namespace swarm::controller {

/// The job that the actions are for.
struct Acting {
  const objects::JobView& view;  ///< with the status of the plan
  const std::vector<plan::ObservedPod>& pods;
  std::uint64_t leader_term = 0;
  WallTime now;
  JobMemory* memory;
  std::string trainer_ip;  ///< empty: no trainer runs

  kube::ObjectName name() const { return {view.ns, view.name}; }
};

/// Thread-safe, but only one call at a time per job. Everything it does is idempotent.
class Actor {
 public:
  /// The references must outlive this.
  Actor(kube::Client& client, const Clusters& clusters, TrainerLinks& links, JobSecrets& secrets,
        OperatorMetrics& metrics, objects::PodOptions pod_options)
      : client_(client),
        clusters_(clusters),
        links_(links),
        secrets_(secrets),
        metrics_(metrics),
        pod_options_(std::move(pod_options)) {}

  /// Carries out the actions in this order, and then creates pods, some at the same time, in
  /// batches of 1, 2, 4, 8 and then 16; pods that are deleted one after the other go 16 at the same
  /// time. A failed action does not stop the next ones, but a refused creation stops the next
  /// batches. If the server refuses an action for a lasting reason, that is
  /// no error: it is remembered for the next decision. Returns the first error that a retry may
  /// fix.
  Status Do(const Acting& acting, const std::vector<plan::Action>& actions);

  /// Makes sure that the job has an authority, and the operator a valid certificate of it. Does
  /// nothing while that is so.
  Result<OwnIdentity> HoldAuthority(const Acting& acting);

  /// Asks the server, by a dry run, whether it would accept the pods of this job. Returns its
  /// objections, one sentence each. Errors: those that a retry may fix.
  Result<std::vector<std::string>> Judge(const objects::JobView& view);

  const objects::PodOptions& pod_options() const { return pod_options_; }

  /// The children that are correct, as far as this operator remembers.
  std::set<plan::Child> GoodChildren(const Acting& acting) const;

 private:
  /// The creation of one pod, with its certificate.
  struct Creating {
    plan::Creation attempt;
    Result<nlohmann::json> pod;
    Status status = {};
    bool made = false;                      // the pod exists, with or without its certificate
    bool is_new = false;                    // and did not before
    std::optional<WallTime> renew_at = {};  // of the certificate; none: it was not made
  };
  /// Errors: kUnavailable, the satellite of the cluster has not come.
  Result<kube::Client*> ClientOf(const std::string& cluster) const;
  Status Apply(const Acting& acting, plan::Child child);
  Status ApplyOutposts(const Acting& acting);
  Status ApplyOutpost(const Acting& acting, const std::string& cluster);
  bool HasGoodOutposts(const Acting& acting) const;
  /// As objects::PodOptions::gateways.
  std::map<std::string, std::string> Gateways() const;
  Result<nlohmann::json> BuildPod(const Acting& acting, const plan::Action& action) const;
  /// Of the clusters where a pod is to be created: what the job has there is made anew first if its
  /// owner is not there any more.
  void RenewLostOutposts(const Acting& acting, const std::vector<const plan::Action*>& actions);
  Status CreateAll(const Acting& acting, const std::vector<const plan::Action*>& actions);
  Status Create(const Acting& acting, Creating* creating) const;
  Status Remember(const Acting& acting, const Creating& creating, bool* refused);
  Status EnsureIdentities(const Acting& acting);
  Status EnsureSharedIdentities(const Acting& acting);
  Status DeleteAll(const Acting& acting, const std::vector<const plan::DeletePod*>& actions) const;
  Status Delete(const Acting& acting, const plan::DeletePod& action) const;
  void Direct(const Acting& acting, const plan::DirectTrainer& action);
  Status WriteReplicas(const Acting& acting, std::uint64_t replicas);
  Status WriteWorkload(const Acting& acting);
  Status TryWriteWorkload(const Acting& acting);
  Status DeleteWorkload(const Acting& acting, const plan::DeleteWorkload& action);
  Status TellQueue(const Acting& acting, const plan::TellQueue& action);

  kube::Client& client_;  // of the jobs' own cluster
  const Clusters& clusters_;
  TrainerLinks& links_;
  JobSecrets& secrets_;
  OperatorMetrics& metrics_;
  const objects::PodOptions pod_options_;
};

}  // namespace swarm::controller
