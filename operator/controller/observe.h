// From Kubernetes' objects, what the trainer said and what is remembered to what a decision is made
// on.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/controller/job_memory.h"
#include "operator/controller/trainer_links.h"
#include "operator/kube/object/object.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::controller {

/// One view of the cluster: the caches', or the server's of this moment.
struct Snapshot {
  kube::Object job;                           ///< never null
  std::vector<kube::Object> pods;             ///< labelled with the job's name
  std::map<std::string, kube::Object> nodes;  ///< by name: those that the pods are bound to
  bool nodes_known = true;
};

/// The two clocks, read together.
struct Now {
  std::chrono::system_clock::time_point wall;
  Timepoint steady;
};

/// What does not come from the snapshot.
struct Surroundings {
  Now now;
  std::uint64_t leader_term = 0;
  std::optional<TrainerView> trainer;
};

/// Brings `memory` up to date with the pods, and makes the input of a decision. `children` of it is
/// left empty. Pods of another owner are left out.
plan::Observed Observe(const objects::JobView& view, const Snapshot& snapshot,
                       const Surroundings& surroundings, JobMemory* memory);

/// Where the trainer of the job is to be reached: host:port of its newest running pod. Empty: it
/// cannot be reached now.
std::string TrainerDial(const objects::JobView& view, const Snapshot& snapshot);

}  // namespace swarm::controller
