// One reconcile of one job: observe, decide, reserve, act, report.
//
// The caches may be older than the last action of this process. So the caches only show whether
// there is something to do. The plan to carry out is decided again, with the job as the API server
// has it now, which fences off an operator that no longer leads. Pods are taken from the cache,
// which may be behind: a pod that it lacks is asked for by name, unless this process has just
// created it.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "operator/controller/actor.h"
#include "operator/controller/clusters.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/metrics.h"
#include "operator/controller/observe.h"
#include "operator/controller/seen_nodes.h"
#include "operator/controller/trainer_links.h"
#include "operator/controller/workloads.h"
#include "operator/kube/client/client.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/watch/store.h"
#include "operator/plan/plan.h"

namespace swarm::controller {

/// What a reconcile reads without a request to the server.
struct Caches {
  const kube::Store& jobs;
  const kube::Store& pods;           ///< with PodIndexes
  const SeenNodes* nodes = nullptr;  ///< null: nodes may not be read
  const Clusters& clusters;          ///< others, with caches of their pods and nodes
};

/// How a reconcile ended.
struct Reconciled {
  Status status;  ///< kAborted: another client has written the job, so reconcile again at once
  std::optional<Duration> look_again;
};

/// Serves one leadership. Thread-safe, but only one call at a time per job.
class Reconciler {
 public:
  using ReadClocks = std::function<Now()>;
  struct Parts {
    kube::Client& client;
    Caches caches;
    Actor& actor;
    TrainerLinks& links;
    JobSecrets& secrets;
    kube::EventRecorder& events;
    OperatorMetrics& metrics;
    Workloads& workloads;
  };

  /// `parts` must outlive this.
  Reconciler(const Parts& parts, std::uint64_t leader_term, ReadClocks clocks)
      : parts_(parts), leader_term_(leader_term), clocks_(std::move(clocks)) {}

  Reconciled Reconcile(const kube::ObjectName& name);

 private:
  /// A plan, and the state from which it was made.
  struct Decision {
    Snapshot snapshot;
    objects::JobView view;
    plan::Observed observed;
    plan::Plan plan;
    Now now;
  };

  void Forget(const kube::ObjectName& name);
  Snapshot ReadCaches(kube::Object job, JobMemory* memory) const;
  Result<Decision> DecideAnew(const kube::ObjectName& name, const std::string& uid,
                              JobMemory* memory);
  /// The pools of the job whose clusters cannot be reached.
  std::set<std::string> UnreachablePools(const objects::JobView& view) const;
  bool IsReachable(const std::string& cluster) const;
  /// The other clusters in which the job has pools or pods.
  std::map<std::string, plan::ObservedCluster> LookAtClusters(const objects::JobView& view,
                                                              const Snapshot& snapshot,
                                                              const Now& now) const;
  /// A pod as the servers of these clusters have it now; null: there is none.
  Result<std::shared_ptr<const SeenPod>> FindPod(const kube::ObjectName& name,
                                                 const std::set<std::string>& clusters) const;
  std::shared_ptr<const plan::ObservedNode> FindNode(const std::string& name) const;
  Status AddPods(const Decision& decision, JobMemory* memory, Snapshot* snapshot) const;
  Status AddNodes(const JobMemory* memory, Snapshot* snapshot) const;
  Status AddWorkload(const objects::JobView& view, Snapshot* snapshot) const;
  Status Place(Decision* decision) const;
  Result<Decision> Decide(Snapshot snapshot, JobMemory* memory);
  void Choose(const nlohmann::json& job, objects::JobView* view, JobMemory* memory);
  Status Judge(const objects::JobView& view, JobMemory* memory);
  void Link(const Decision& decision, JobMemory* memory);
  /// Tells why the Workload of a job that runs elsewhere cannot be kept: it has no condition of
  /// ours.
  void TellOfQueue(const Decision& decision, JobMemory* memory);
  Status CarryOut(Decision& decision, JobMemory* memory);
  Status Write(const Decision& decision, JobMemory* memory);
  /// Writes the status of the plan if it differs, and then tells its events. True: it was written.
  Result<bool> WriteStatus(const Decision& decision);
  /// Says of a job about which nothing can be decided that this is for want of a cluster.
  void TellOfWaiting(Decision* decision);
  void Show(const Decision& decision);
  Acting ActingFor(const Decision& decision, JobMemory* memory) const;

  const Parts parts_;
  const std::uint64_t leader_term_;
  const ReadClocks clocks_;
  JobMemories memories_;
};

}  // namespace swarm::controller
