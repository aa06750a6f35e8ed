// What the operator remembers of a job between two reconciles, besides its status. All of it may be
// lost: then the operator repeats some work, which changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/format/field_error.h"
#include "api/format/wall_time.h"
#include "api/status.h"
#include "operator/controller/seen_pods.h"
#include "operator/kube/object/object.h"
#include "operator/plan/money/tenures.h"
#include "operator/plan/observed.h"
#include "operator/plan/reservations.h"

namespace swarm::controller {

/// What is remembered of one pod.
struct PodMemory {
  std::string node_uid;  ///< of the node on which it was first seen
  bool was_gated = false;
  api::WallTime waiting_since{};  ///< its creation, or when it was first seen without gates
};

/// A child that was applied.
struct AppliedChild {
  std::size_t hash = 0;  ///< of its content
  api::WallTime time{};
};

/// What a job has in another cluster (operator/objects/outpost.h).
struct OutpostMemory {
  std::string uid;     ///< of the ConfigMap that owns the rest
  AppliedChild parts;  ///< the rest
};

/// What is remembered of one job, identified by its UID. Used by one reconcile at a time.
struct JobMemory {
  SeenPods seen;
  std::map<std::string, PodMemory> pods;  ///< by UID
  std::map<plan::Child, AppliedChild> children;
  std::map<std::string, OutpostMemory> outposts;  ///< by cluster
  std::map<std::pair<plan::PodRole, std::uint64_t>, plan::Creation> creations;
  plan::Reservations reservations;
  plan::Tenures tenures;
  std::optional<plan::Refusal> refusal;
  std::string workload_refusal;        ///< why the last write of its Workload was refused
  std::string queue_trouble;           ///< of a job that runs elsewhere, as last told in an event
  std::optional<api::WallTime> moved;  ///< when the last move was ordered
  std::optional<api::WallTime> status_written;
  std::uint64_t judged_generation = 0;  ///< the generation whose pods the API server has judged
  std::vector<std::string> judgement;   ///< its objections
  std::uint64_t chosen_generation = 0;  ///< the generation that `chosen` is for
  /// What the planner chose; none: it was not asked. The status has what the job runs with.
  std::optional<api::Checked<api::PlanChoice>> chosen;
  std::uint64_t directs = 0;      ///< number of orders to the trainer so far
  std::set<std::string> ordered;  ///< the content of the last order, to count new moves and drains
  using RenewalTime = std::chrono::system_clock::time_point;
  std::optional<RenewalTime> renew_at;         ///< of the operator's own certificate
  std::optional<RenewalTime> authority_since;  ///< of the authority that issued these:
  /// When the certificate of a pod is to be renewed. A pod that is not here may have none.
  std::map<std::pair<plan::PodRole, std::uint64_t>, RenewalTime> identities;
  std::string identity_trouble;  ///< why there are no certificates; logged once

  /// The first renewal of a certificate after `now`; none: there is none.
  std::optional<RenewalTime> NextRenewal(RenewalTime now) const;
  /// Whether the operator has seen the node of the pod with this UID.
  bool KnewNodeOf(const std::string& pod_uid) const {
    const auto found = pods.find(pod_uid);
    return found != pods.end() && !found->second.node_uid.empty();
  }
};

/// The map is thread-safe; the memories in it are not.
class JobMemories {
 public:
  /// The memory of the job `name` with this UID. Forgets the memory of another UID.
  std::shared_ptr<JobMemory> Of(const kube::ObjectName& name, const std::string& uid);
  /// Returns the remembered UID; empty: there was none.
  std::string Forget(const kube::ObjectName& name);

 private:
  struct Entry {
    std::string uid;
    std::shared_ptr<JobMemory> memory;
  };
  std::mutex mutex_;
  std::map<kube::ObjectName, Entry> entries_;  // guarded
};

}  // namespace swarm::controller
