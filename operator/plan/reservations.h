// The numbers that were given out (open workers' ordinals, the trainer's term), as one operator
// knows them from one look at a job to the next. Pure.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// Belongs to one leadership over one job: where that is lost, so is what is known here, and a
/// number whose pod vanished meanwhile is waited for once more.
class Reservations {
 public:
  /// Takes in what is to be seen at `now`, never less than before. Returns the numbers whose pods
  /// this operator has neither seen nor tried to create: see Reservation.
  std::vector<Reservation> Look(const api::SwarmJobStatus& status,
                                const std::vector<ObservedPod>& pods,
                                const std::vector<Creation>& creations, WallTime now);

 private:
  using Number = std::pair<PodRole, std::uint64_t>;
  struct Known {
    WallTime since{};
    bool ours = false;  ///< its pod was seen, or its creation was tried
  };
  std::map<Number, Known> known_;
};

}  // namespace swarm::plan
