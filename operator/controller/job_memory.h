// What the operator remembers of a job between two looks at it, besides what its status says. All
// of it can be lost: then things are done once more, which changes nothing.
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

#include "api/wall_time.h"
#include "operator/kube/object/object.h"
#include "operator/plan/observed.h"
#include "operator/plan/reservations.h"

namespace swarm::controller {

/// Of one pod.
struct PodMemory {
  std::string node_uid;  ///< of the node it was first seen on
  bool was_gated = false;
  api::WallTime waiting_since{};  ///< its creation, or when its gates were seen to be gone
};

/// A child that was made as it should be.
struct AppliedChild {
  std::size_t hash = 0;  ///< of its content
  api::WallTime time{};
};

/// Of one job, by its UID. Used by one reconcile at a time.
struct JobMemory {
  std::map<std::string, PodMemory> pods;  ///< by UID
  std::map<plan::Child, AppliedChild> children;
  std::map<std::pair<plan::PodRole, std::uint64_t>, plan::Creation> creations;
  plan::Reservations reservations;
  std::optional<plan::Refusal> refusal;
  std::optional<api::WallTime> moved;  ///< when the trainer was last told of a move
  std::optional<api::WallTime> status_written;
  std::uint64_t judged_generation = 0;  ///< whose pods the API server has judged
  std::vector<std::string> judgement;   ///< what is wrong with them
  std::uint64_t directs = 0;            ///< messages to the trainer so far
  std::set<std::string> ordered;        ///< what the last of them said, to count what is new
  std::optional<std::chrono::system_clock::time_point> renew_at;  ///< of the certificates
  std::string identity_trouble;                                   ///< why there are none; told once

  /// Whether the node of the pod with this UID has been seen.
  bool KnewNodeOf(const std::string& pod_uid) const {
    const auto found = pods.find(pod_uid);
    return found != pods.end() && !found->second.node_uid.empty();
  }
};

/// Thread-safe as a map; what it holds is not.
class JobMemories {
 public:
  /// The memory of the job `name` with this UID. That of another UID is forgotten.
  std::shared_ptr<JobMemory> Of(const kube::ObjectName& name, const std::string& uid);
  /// Returns the UID that was remembered, or an empty one.
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
