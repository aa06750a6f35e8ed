// The reserved numbers (ordinals of open workers, the trainer's term), as one operator knows them
// from one decision about a job to the next. Pure.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// Belongs to one leadership over one job. An operator that becomes leader starts without it, and
/// then waits once more for the pod of each number.
class Reservations {
 public:
  /// Takes in what is visible at `now`, which never goes back. Returns the numbers whose pods this
  /// operator has neither seen nor tried to create: see Reservation.
  std::vector<Reservation> Look(const api::SwarmJobStatus& status,
                                const std::vector<ObservedPod>& pods,
                                const std::vector<Creation>& creations, WallTime now);

 private:
  using Number = std::pair<PodRole, std::uint64_t>;
  struct Known {
    WallTime since{};
    bool ours = false;  ///< this operator saw its pod, or tried to create it
  };
  std::map<Number, Known> known_;
};

}  // namespace swarm::plan
