// An observation, with what decisions look up in it for one pod after the other: which of its
// workers the trainer lists, and what the other pods of the job have come to. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// A worker as the trainer lists it.
struct ListedWorker {
  std::uint64_t stage = 0;
  const protocol::StageStatus::Worker* worker = nullptr;
};

/// It is made once for a decision, in O(n) of the pods and of the workers that the trainer lists.
/// No question about a pod takes longer in a job of more pods.
class Evidence {
 public:
  /// `observed` must outlive this, and stay as it is. Implicit: to judge one pod, the observation
  /// is enough.
  Evidence(const Observed& observed);  // NOLINT(google-explicit-constructor)

  const Observed& seen() const { return seen_; }

  // What the trainer says, however old it is (FreshView tells whether it still counts). It is a
  // tenant's program: stages that the job does not have are left out.

  /// The workers of the pod, by stage. Empty: the trainer lists none of them.
  std::vector<ListedWorker> WorkersOf(const ObservedPod& pod) const;
  /// Whether a worker of the pod is a spare.
  bool HasSpare(const ObservedPod& pod) const;
  /// The last eviction of a worker of the pod; null: there was none.
  const protocol::Eviction* EvictionOf(const ObservedPod& pod) const;
  /// The pod that has this worker; null: none.
  const ObservedPod* PodOf(const std::string& worker) const;

  // What the other pods have come to.

  /// Whether a pod runs on another node than this one's.
  bool RunsElsewhere(const ObservedPod& pod) const;
  /// Whether the image of a pod of the role is on a node, or was.
  bool HasHadImage(PodRole role) const;
  /// Whether no other pod goes before it of those that wait for their image: the trainer is first,
  /// and then the pod that has waited longest.
  bool IsFirstInLine(const ObservedPod& pod) const;

 private:
  void LookAtTrainer(const protocol::JobStatus& status);
  void LookAtPods();

  const Observed& seen_;
  // By worker. The keys are texts of `seen_`.
  std::unordered_map<std::string_view, std::vector<ListedWorker>> listed_;
  std::unordered_map<std::string_view, const protocol::Eviction*> evicted_;
  std::unordered_set<std::string_view> spares_;
  std::unordered_map<std::string, const ObservedPod*> pods_;
  std::vector<std::string_view> nodes_;  // on which pods run: two of them, if there are two
  bool worker_had_image_ = false;
  bool trainer_had_image_ = false;
  const ObservedPod* first_in_line_ = nullptr;
};

}  // namespace swarm::plan
