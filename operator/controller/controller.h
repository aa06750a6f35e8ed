// The operator as a library: caches, work queue, and the threads that reconcile.
//
// The caches run from the start, also in a standby, so that a new leader can begin at once. Nothing
// is written before Lead.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "operator/controller/clusters.h"
#include "operator/controller/informers.h"
#include "operator/controller/job_secrets.h"
#include "operator/controller/machines.h"
#include "operator/controller/metrics.h"
#include "operator/controller/proofs.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/trainer_links.h"
#include "operator/controller/workloads.h"
#include "operator/jobs_page/jobs_view.h"
#include "operator/kube/client/client.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/watch/workqueue.h"
#include "operator/objects/build.h"

namespace swarm::controller {

struct ControllerOptions {
  InformerOptions informers;
  int reconcilers = 8;  ///< threads, and so jobs that are reconciled at the same time
  objects::PodOptions pods;
  std::string instance;  ///< tells this operator from others in events
};

class Controller {
 public:
  /// `client` and `timing` must outlive this. `connect` opens the connections to trainers.
  Controller(kube::Client& client, const ControllerOptions& options, TrainerLinks::Connect connect,
             kube::Timing& timing);
  /// Stops.
  ~Controller();

  /// Starts to fill the caches.
  void Start();
  /// From now on jobs may have pods in this cluster, too. Each name once.
  void AddCluster(const std::string& name, std::unique_ptr<kube::Client> client,
                  Cluster::Reachable reachable);
  /// From now on the workers' pods that are created prove themselves where `find` says.
  void ProveAt(FindProofPlace find) { clusters_.ProveAt(std::move(find)); }
  /// From now on the pods that are created know the gateways that `list` has.
  void UseGateways(ListGateways list) { clusters_.UseGateways(std::move(list)); }
  /// Lets machines join the jobs.
  Machines& machines() { return machines_; }
  /// As enrol::Prove.
  void Prove(const enrol::Caller& caller, const enrol::ProveRequest& request, enrol::Proved done) {
    proofs_.Prove(caller, request, std::move(done));
  }
  /// Wakes the jobs that have pools or pods in a cluster that has come or gone since the last call.
  /// Call it every few seconds, from one thread.
  void LookAtClusters();
  /// Of all jobs that exist. Requires: synced().
  std::set<std::string> JobUids() const;
  /// Starts to reconcile, once the caches are filled. `term` of the lease fences the orders to
  /// trainers. Call once.
  void Lead(std::uint64_t term);
  /// Waits for the reconciles in progress, which the client's deadlines bound. Then sends the last
  /// events.
  void Stop();

  bool synced() const { return informers_.synced(); }
  /// Whether it looks after jobs, or would if it led: as Informers.
  bool usable() const { return informers_.usable(); }
  /// For /metrics.
  std::vector<MetricSample> Samples() const;
  /// For the page of all jobs, from the caches. Where this operator does not lead, no trainer tells
  /// it anything.
  jobs_page::JobsView Jobs() const;

 private:
  void Run(std::uint64_t term, std::stop_token stop);
  void Work(Reconciler& reconciler, std::stop_token stop);
  void Look(Reconciler& reconciler, const std::string& key);
  void AppendClusters(std::vector<MetricSample>* samples) const;

  const ControllerOptions options_;
  kube::Client& client_;
  kube::Timing& timing_;
  OperatorMetrics metrics_;
  kube::WorkQueue queue_;
  kube::EventRecorder events_;
  JobSecrets secrets_;
  TrainerLinks links_;
  Clusters clusters_;
  std::map<std::string, bool> reachable_;  // by cluster; of LookAtClusters
  std::atomic<bool> leads_ = false;
  Actor actor_;
  Informers informers_;
  Workloads workloads_;
  Proofs proofs_;
  Machines machines_;
  std::jthread leader_;  // last: destroyed before the other members
};

}  // namespace swarm::controller
