// The open pods of a job's workers, as a decision finds them: what is known of each ordinal that
// was reserved and whose end is not counted. A pod has one worker, or one for each of its devices.
// Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/plan/evidence.h"
#include "operator/plan/observed.h"
#include "operator/plan/pods/pod_health.h"

namespace swarm::plan {

/// An open worker, or the workers of one pod: their pod, and what the trainer says about them.
struct Worker {
  std::uint64_t ordinal = 0;
  std::string name;
  const ObservedPod* pod = nullptr;  ///< null: reserved, and the pod is not visible yet
  std::string pool;                  ///< empty: not known yet, so the operator leaves it alone
  std::uint64_t workers = 1;         ///< of the pod
  bool made = false;                 ///< the server has created the pod, which is not visible yet
  Judgement judgement;
  bool ready = false;    ///< all that the trainer lists serve, and neither leave nor move
  bool leaving = false;  ///< all that it lists hand over their work, and then end
  std::vector<ListedWorker> listed;

  bool placed() const { return pod != nullptr && !pod->node.empty(); }
  bool gated() const { return pod != nullptr && pod->gated && pod->node.empty(); }
  bool lives() const { return judgement.health == Health::kLives; }
  /// Whether it counts towards the wanted number.
  bool stays() const { return lives() && !leaving; }
};

struct ObservedWorkers {
  std::vector<Worker> open;            ///< ascending by ordinal; `pod` points into Observed
  std::vector<std::uint64_t> refused;  ///< the API server refused the pods: they never existed
  std::vector<std::uint64_t>
      vanished;  ///< the pods are gone or were never created: not known which
  /// When the first reserved worker whose pod is not visible counts as vanished. None: there is no
  /// such worker.
  std::optional<WallTime> look_again;
};

ObservedWorkers ObserveWorkers(const Evidence& evidence);

/// A pod that was created, by this or another operator, may take this long to become visible.
inline constexpr std::chrono::seconds kSettleTime{10};

/// The pods that should exist, are not visible, and are not known to be missing. Before a decision
/// is carried out, the server is asked for them.
std::vector<std::pair<PodRole, std::uint64_t>> InDoubt(const Observed& observed);

/// How many workers a new pod of the pool has. Of a pool that is not known (empty): the most.
std::uint64_t PodSize(const Observed& observed, const std::string& pool);

/// This operator's attempt to create a pod that is not visible; null: there was none.
const Creation* FindCreation(const Observed& observed, PodRole role, std::uint64_t number);

/// When a reserved number whose pod is not visible counts as vanished. None: at once, because this
/// operator has seen its pod.
std::optional<WallTime> GivenUpAt(const Observed& observed, PodRole role, std::uint64_t number);

}  // namespace swarm::plan
