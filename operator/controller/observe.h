// Makes the input of a decision from Kubernetes' objects, the trainer's status, and what the
// operator remembers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/controller/job_memory.h"
#include "operator/controller/trainer_links.h"
#include "operator/kube/object/object.h"
#include "operator/objects/build.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::controller {

/// The objects of one job, from the caches or from the server.
struct Snapshot {
  kube::Object job;                                  ///< never null
  std::vector<std::shared_ptr<const SeenPod>> pods;  ///< labelled with the job's name
  /// By name: the nodes of the pods.
  std::map<std::string, std::shared_ptr<const plan::ObservedNode>> nodes;
  bool nodes_known = true;
  bool fresh = false;        ///< the job is as the server has it, not as a cache has it
  kube::Object workload;     ///< of a job with a queue; null: there is none
  std::string no_workloads;  ///< why Workloads cannot be read; empty: they can
};

/// The two clocks, read at the same time.
struct Now {
  std::chrono::system_clock::time_point wall;
  Timepoint steady;
};

/// The input of a decision that is not in the snapshot.
struct Surroundings {
  Now now;
  std::uint64_t leader_term = 0;
  std::optional<TrainerView> trainer;
  objects::PodOptions pods;
  std::set<std::string> unreachable_pools;
  std::map<std::string, plan::ObservedCluster> clusters;  ///< as plan::Observed::clusters
};

/// Updates `memory` from the pods, and returns the input of a decision, except `children`. Leaves
/// out pods of another owner.
plan::Observed Observe(const objects::JobView& view, const Snapshot& snapshot,
                       const Surroundings& surroundings, JobMemory* memory);

/// Whether the job has a queue, or had one that may still have its Workload.
bool HasQueue(const objects::JobView& view);

/// The IP address of the pod of the current trainer. Empty: the pod is not running.
std::string TrainerIp(const objects::JobView& view, const Snapshot& snapshot);

}  // namespace swarm::controller
